"""NVIDIA Dynamo's front end (0.9 to 1.6). Its workers show their engine's page and are read as that engine."""
