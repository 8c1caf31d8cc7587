"""What the brokers SQS and SNS share: names, settings, encoding, requests with several messages, handoffs."""
