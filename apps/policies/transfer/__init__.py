"""Transfer of weights over HTTP to machines that do not share the publisher's folder."""
