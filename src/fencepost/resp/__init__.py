"""What every plug-in of Redis shares: where a server is, one connection to it, scripts, and what its errors mean."""
