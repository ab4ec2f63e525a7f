"""The explorer: opens groups, samples them on an engine that stays loaded, streams and records what was said."""
