"""Acknowledgements that Redis did not hear: a worker goes on without.

A worker takes a new message when the last one is acknowledged. kombu counts one as acknowledged only when Redis has answered; where
Redis dies just then, it logs the error, tells nobody, and the worker never takes another message, though Redis is long back. Here
the place is free either way: what Redis still has of the message it delivers again, and a job done twice is done once.

Names relied on, kombu 5.7: `redis.Channel.QoS`, `redis.QoS.ack`, `.reject`, `virtual.QoS.ack`.
"""

from kombu.transport import redis, virtual


class QoS(redis.QoS):
    """Frees a message's place also where Redis does not answer."""

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
    """Let this process's channels count so."""
    redis.Channel.QoS = QoS
