"""Weights over HTTP: how a machine without the shared folder gets them from the publisher's."""
