"""DynamoDB: what it does besides the rules that every database keeps."""
