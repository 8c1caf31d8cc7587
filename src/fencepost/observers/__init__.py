"""What is told of the events of fencepost.events: one file for each way of telling."""
