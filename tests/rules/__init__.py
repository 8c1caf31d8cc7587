"""The shipped rules against the plug-ins of this project, and the rules themselves against planted bugs."""
