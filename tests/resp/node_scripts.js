// node_scripts.js NAME PORT USER PASSWORD: what an application does with a library whose scripts the server runs.
'use strict'
const assert = require('assert')
const [, , name, port, username, password] = process.argv
const Redis = require('ioredis')
const clients = []

function connect() {
    clients.push(new Redis({ port: Number(port), username, password }))
    return clients[clients.length - 1]
}

// Both of ioredis itself: it sends EVALSHA, and EVAL after NOSCRIPT.
async function withIoredis() {
    const db = connect()
    await db.script('flush')
    db.defineCommand('addTo', {
        numberOfKeys: 1,
        lua: "return redis.call('incrby', KEYS[1], ARGV[1])",
    })
    assert.equal(await db.addTo('defined', 2), 2)
    assert.equal(await db.addTo('defined', 3), 5)
    const pipelined = await db.pipeline().addTo('defined', 1).get('defined').exec()
    assert.deepEqual(pipelined, [[null, 6], [null, '6']])
    assert.deepEqual(await db.multi().addTo('defined', 1).exec(), [[null, 7]])
    await assert.rejects(db.eval("return redis.error_reply('MY fault')", 0), /MY fault/)
}

async function withNodeRedis() {
    const { createClient, defineScript } = require('redis')
    const addTo = defineScript({
        NUMBER_OF_KEYS: 1,
        SCRIPT: "return redis.call('incrby', KEYS[1], ARGV[1])",
        parseCommand: (parser, key, number) => { parser.pushKey(key); parser.push(String(number)) },
        transformReply: undefined,
    })
    const db = await createClient({ socket: { port: Number(port) }, username, password, scripts: { addTo } }).connect()
    await db.scriptFlush()
    assert.equal(await db.addTo('defined:node', 2), 2)
    assert.equal(await db.addTo('defined:node', 3), 5)
    assert.deepEqual(await db.multi().addTo('defined:node', 1).exec(), [6])
    assert.equal(await db.eval('return ARGV[1]', { arguments: ['x'] }), 'x')
    await db.quit()
}

async function withRedlock() {
    const Redlock = require('redlock')
    const redlock = new Redlock([connect()], { retryCount: 0 })
    let lock = await redlock.lock(['red:a', 'red:b'], 10000)
    await assert.rejects(redlock.lock('red:a', 10000), Redlock.LockError)
    lock = await lock.extend(20000)
    assert((await clients[0].pttl('red:b')) > 10000)
    await lock.unlock()
    await assert.rejects(lock.unlock(), Redlock.LockError)
    await (await redlock.lock('red:a', 10000)).unlock()
}

async function withSemaphore() {
    const { Mutex, RedlockMutex } = require('redis-semaphore')
    for (const make of [(db) => new Mutex(db, 'mutex'), (db) => new RedlockMutex([db], 'redlock')]) {
        const [one, other] = [make(connect()), make(connect())]
        await one.acquire()
        assert.equal(await other.tryAcquire(), false)
        await new Promise((resolve) => setTimeout(resolve, 100))
        assert(one.isAcquired)
        await one.release()
        await other.acquire()
        await other.release()
    }
}

async function withFlexible() {
    const { RateLimiterRedis } = require('rate-limiter-flexible')
    const limiter = new RateLimiterRedis({ storeClient: connect(), points: 3, duration: 100 })
    for (let left = 2; left >= 0; left--) assert.equal((await limiter.consume('user')).remainingPoints, left)
    const refused = await limiter.consume('user').catch((result) => result)
    assert.equal(refused.remainingPoints, 0)
    assert(refused.msBeforeNext > 0 && refused.msBeforeNext <= 100000)
    assert.equal((await limiter.get('user')).consumedPoints, 4)
    await limiter.reward('user', 2)
    await limiter.block('user', 50)
    await assert.rejects(limiter.consume('user'))
    await limiter.delete('user')
    assert.equal((await limiter.consume('user')).remainingPoints, 2)
}

async function withRateLimitRedis() {
    const { RedisStore } = require('rate-limit-redis')
    const db = connect()
    const store = new RedisStore({ sendCommand: (command, ...rest) => db.call(command, ...rest) })
    await store.init({ windowMs: 100000 })
    assert.equal((await store.increment('who')).totalHits, 1)
    const { totalHits, resetTime } = await store.increment('who')
    assert.equal(totalHits, 2)
    assert(resetTime > new Date())
    await store.decrement('who')
    assert.equal((await store.get('who')).totalHits, 1)
    await store.resetKey('who')
    await db.script('flush') // then it loads its scripts again
    assert.equal((await store.increment('who')).totalHits, 1)
}

async function withFastify() {
    const app = require('fastify')()
    await app.register(require('@fastify/rate-limit'), { max: 2, timeWindow: 100000, redis: connect() })
    app.get('/', async () => 'ok')
    const codes = []
    for (let i = 0; i < 3; i++) codes.push((await app.inject('/')).statusCode)
    assert.deepEqual(codes, [200, 200, 429])
    await app.close()
}

const all = {
    ioredis: withIoredis, redis: withNodeRedis, redlock: withRedlock, 'redis-semaphore': withSemaphore,
    'rate-limiter-flexible': withFlexible, 'rate-limit-redis': withRateLimitRedis, '@fastify/rate-limit': withFastify,
}
all[name]().then(() => Promise.all(clients.map((client) => client.quit()))).catch((error) => {
    console.error(error)
    process.exit(1)
})
