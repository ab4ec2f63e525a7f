"""The explorer: opens groups, samples them on an engine, streams the text and records rollouts."""
