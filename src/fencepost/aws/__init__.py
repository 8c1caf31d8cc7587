"""What the plug-ins for Amazon's services share: addresses, clients that keep a deadline, errors."""
