"""Acknowledgements of messages that survive an unavailable Redis.

A worker takes a new message when the last one is acknowledged. kombu counts a message as
acknowledged only when Redis has answered; if Redis dies at that moment, kombu logs the error, and
the worker never takes another message, even after Redis is back. Here the slot is freed in any
case: Redis delivers again what it still has of the message, and a job that runs twice has its
effect once.

Names relied on, kombu 5.7: `redis.Channel.QoS`, `redis.QoS.ack`, `.reject`, `virtual.QoS.ack`.
"""

from kombu.transport import redis, virtual


class QoS(redis.QoS):
    """A kombu QoS that frees a message's slot even if Redis does not answer."""

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        finally:
            virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue)
        finally:
            virtual.QoS.ack(self, delivery_tag)


def survive() -> None:
    """Make this process's channels use this QoS."""
    redis.Channel.QoS = QoS
