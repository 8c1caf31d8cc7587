"""Payloads in the form that a schema registry knows: Avro, Protobuf, JSON Schema, chosen per topic.

What waits in the outbox stays JSON. Just before a batch is sent, in the worker's thread, its messages are encoded by
confluent_kafka's own serializers, with the latest version of their subject. The registry's libraries are an extra and
are imported when an encoder is asked for.
"""
