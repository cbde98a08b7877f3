// node_client.js ioredis|redis PORT USER PASSWORD PROTOCOL: what an application does with a Redis client.
'use strict'
const assert = require('assert')
const [, , name, port, username, password, protocol] = process.argv

async function withIoredis() {
    const Redis = require('ioredis')
    const db = new Redis({ port: Number(port), username, password })
    assert.equal(await db.set('io:a', '1'), 'OK')
    assert.equal(await db.incr('io:a'), 2)
    assert.deepEqual(await db.mget('io:a', 'io:none'), ['2', null])
    assert.equal(await db.expire('io:a', 100), 1)
    assert((await db.ttl('io:a')) > 0)
    const key = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const large = Buffer.alloc(1 << 20, 'x')
    assert.equal(await db.set(key, large), 'OK')
    assert(large.equals(await db.getBuffer(key)))
    const pipeline = db.pipeline()
    for (let i = 0; i < 1000; i++) pipeline.incr('io:pipelined')
    assert.deepEqual((await pipeline.exec()).map((reply) => reply[1]), Array.from({ length: 1000 }, (_, i) => i + 1))
    await db.watch('io:a')
    assert.deepEqual(await db.multi().set('io:a', '7').get('io:a').exec(), [[null, 'OK'], [null, '7']])
    const other = db.duplicate()
    await db.watch('io:a')
    await other.set('io:a', '8')
    assert.equal(await db.multi().set('io:a', '9').exec(), null)
    const met = []
    for await (const keys of db.scanStream({ match: 'io:*' })) met.push(...keys)
    assert.deepEqual([...new Set(met)].sort(), ['io:a', 'io:pipelined'])
    await Promise.all([db.quit(), other.quit()])
}

async function withNodeRedis() {
    const { createClient } = require('redis')
    const db = createClient({ socket: { port: Number(port) }, username, password, RESP: Number(protocol) })
    await db.connect()
    assert.equal(await db.set('node:a', '1'), 'OK')
    assert.equal(await db.incr('node:a'), 2)
    assert.deepEqual(await db.mGet(['node:a', 'node:none']), ['2', null])
    assert(await db.expire('node:a', 100))
    assert((await db.ttl('node:a')) > 0)
    assert.equal(await db.set('node:large', 'x'.repeat(1 << 20)), 'OK')
    assert.equal((await db.get('node:large')).length, 1 << 20)
    const key = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    assert.equal(await db.set(key, 'binary'), 'OK')
    assert.equal(await db.get(key), 'binary')
    const sums = await Promise.all(Array.from({ length: 1000 }, () => db.incr('node:pipelined')))
    assert.equal(sums[999] - sums[0], 999)
    assert.deepEqual(await db.multi().set('node:a', '7').get('node:a').exec(), ['OK', '7'])
    const other = await db.duplicate().connect()
    await db.watch('node:a')
    await other.set('node:a', '8')
    await assert.rejects(db.multi().set('node:a', '9').exec(), /watch/i)
    const met = new Set()
    for await (const keys of db.scanIterator({ MATCH: 'node:*' })) [keys].flat().forEach((each) => met.add(each))
    assert.deepEqual([...met].sort(), ['node:a', 'node:large', 'node:pipelined'])
    await Promise.all([db.quit(), other.quit()])
}

const run = name === 'ioredis' ? withIoredis : withNodeRedis
run().catch((error) => {
    console.error(error)
    process.exit(1)
})
