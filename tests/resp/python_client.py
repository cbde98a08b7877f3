"""python_client.py PORT USER PASSWORD: what an application does with a Redis client, by redis-py."""
import sys

import redis

port, user, password = int(sys.argv[1]), sys.argv[2], sys.argv[3]
try:
    redis.Redis(port=port).get("a")
    raise AssertionError("a stranger is served")
except redis.exceptions.AuthenticationError:
    pass
try:
    redis.Redis(port=port, username=user, password="wrong").get("a")
    raise AssertionError("a wrong password is taken")
except (redis.exceptions.AuthenticationError, redis.exceptions.ResponseError):  # older releases have the latter
    pass

db = redis.Redis(port=port, username=user, password=password)
assert db.set("py:a", 1) and db.get("py:a") == b"1"
assert db.set("py:a", 2, nx=True) is None
assert db.incr("py:a") == 2 and db.incrbyfloat("py:f", 0.5) == 0.5
assert db.mget("py:a", "py:none") == [b"2", None]
assert db.expire("py:a", 100) and 0 < db.ttl("py:a") <= 100
large, key = b"x" * 2**20, bytes(range(256))
assert db.set(key, large) and db.get(key) == large
assert sorted(db.scan_iter("py:*")) == [b"py:a", b"py:f"]

pipeline = db.pipeline(transaction=False)
for _ in range(1000):
    pipeline.incr("py:pipelined")
assert pipeline.execute() == list(range(1, 1001))


def double(transaction):
    value = int(transaction.get("py:a"))
    if not double.was_disturbed:
        double.was_disturbed = True
        db.set("py:a", 5)
    transaction.multi()
    transaction.set("py:a", 2 * value)


double.was_disturbed = False
assert db.transaction(double, "py:a") == [True] and db.get("py:a") == b"10"
assert [each["user"] for each in db.client_list()] == [user] * len(db.client_list())
assert db.info("server")["redis_version"] and db.config_get("maxmemory")
assert db.lock("py:lock", timeout=10) and db.dbsize() > 4
