"""python_scripts.py NAME PORT USER PASSWORD: what an application does with a library whose scripts the server runs."""
import sys
import threading
import urllib.parse

import redis

name, port, user, password = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
url = f"redis://{user}:{urllib.parse.quote(password, '')}@127.0.0.1:{port}/0"


def with_redis():
    db = redis.Redis.from_url(url)
    db.script_flush()
    add_to = db.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert add_to(keys=["py:n"], args=[2]) == 2 and add_to(keys=["py:n"], args=[3]) == 5
    pipeline = db.pipeline()
    pipeline.set("py:n", 10)
    add_to(keys=["py:n"], args=[1], client=pipeline)
    pipeline.get("py:n")
    assert pipeline.execute() == [True, 11, b"11"]
    assert db.script_exists(add_to.sha, 40 * "0") == [True, False]
    db.script_flush()
    assert add_to(keys=["py:n"], args=[1]) == 12
    assert db.eval("return {1, ARGV[1], {3}, false}", 0, "x") == [1, b"x", [3], None]
    try:
        db.eval("redis.call('set', KEYS[1], 1) error('no')", 1, "py:failed")
        raise AssertionError("there is no error")
    except redis.exceptions.ResponseError as error:
        assert "no" in str(error) and not db.exists("py:failed")
    locks(db)


def locks(db):
    lock, other = db.lock("py:lock", timeout=10), db.lock("py:lock", timeout=10, blocking=False)
    assert lock.acquire() and lock.owned() and not other.acquire() and not other.owned()
    assert lock.extend(5) and 10000 < db.pttl("py:lock") <= 15000
    assert lock.extend(20, replace_ttl=True) and 15000 < db.pttl("py:lock") <= 20000
    assert lock.reacquire() and db.pttl("py:lock") <= 10000
    lock.release()
    assert not lock.locked()
    for step in (lock.release, other.release):
        try:
            step()
            raise AssertionError("a lock that is not owned is released")
        except redis.exceptions.LockError:
            pass
    with lock:
        db.set("py:lock", "stolen")
        try:
            lock.reacquire()
            raise AssertionError("a stolen lock is acquired again")
        except redis.exceptions.LockNotOwnedError:
            db.set("py:lock", lock.local.token)
    count_with(lambda: redis.Redis.from_url(url), lambda one: one.lock("py:count:lock", timeout=30, sleep=0.001))


def count_with(connect, lock_of):
    """Threads that read, add and write, each with the lock: no addition is lost."""
    def add():
        one = connect()
        for _ in range(50):
            with lock_of(one):
                one.set("py:count", int(one.get("py:count") or 0) + 1)

    connect().delete("py:count")
    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connect().get("py:count") == b"200"


def with_django_redis():
    import django
    from django.conf import settings
    settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url}})
    django.setup()
    from django.core.cache import cache
    cache.set("a", {"b": 1}, timeout=100)
    assert cache.get("a") == {"b": 1} and 0 < cache.ttl("a") <= 100
    assert not cache.add("a", 2) and cache.get_many(["a", "none"]) == {"a": {"b": 1}}
    cache.set("n", 1)
    assert cache.incr("n") == 2 and cache.incr("n", 5) == 7 and cache.decr("n") == 6  # by a script
    try:
        cache.incr("none")
        raise AssertionError("a key that is not there is incremented")
    except ValueError:
        pass
    with cache.lock("locked", timeout=10):
        assert not cache.lock("locked", timeout=10).acquire(blocking=False)
    cache.set_many({"x:1": 1, "x:2": 2})
    assert sorted(cache.iter_keys("x:*")) == ["x:1", "x:2"] and cache.delete_pattern("x:*") == 2


def with_dogpile():
    from dogpile.cache import make_region
    region = make_region().configure("dogpile.cache.redis", expiration_time=100, arguments={
        "url": url, "redis_expiration_time": 200, "distributed_lock": True, "lock_timeout": 10,
        "thread_local_lock": False})
    made = []

    @region.cache_on_arguments()
    def square(number):
        made.append(number)
        return number * number

    assert square(7) == 49 and square(7) == 49 and made == [7]
    square.invalidate(7)
    assert square(7) == 49 and made == [7, 7]
    mutex = region.backend.get_mutex("a key")
    assert mutex.acquire() and not region.backend.get_mutex("a key").acquire(False)
    mutex.release()


def with_limits():
    from limits import parse
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowElasticExpiryRateLimiter, FixedWindowRateLimiter
    storage = storage_from_string(url)
    assert storage.check()
    for make in (FixedWindowRateLimiter, FixedWindowElasticExpiryRateLimiter):
        limiter, limit = make(storage), parse("3/minute")
        assert [limiter.hit(limit, make.__name__) for _ in range(4)] == [True, True, True, False]
        assert limiter.get_window_stats(limit, make.__name__)[1] == 0
        limiter.clear(limit, make.__name__)
        assert limiter.hit(limit, make.__name__)


{"redis": with_redis, "django-redis": with_django_redis, "dogpile.cache": with_dogpile, "limits": with_limits}[name]()
