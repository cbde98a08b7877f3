"""Requests of scripts for like_redis.py, which compares the replies of okv and Redis 7.0."""

# Requests of one connection.
SAME = [
    "EVAL\nEVAL x\nEVAL 'return 1'\nEVAL 'return 1' x\nEVAL 'return 1' -1\nEVAL 'return 1' 1\nEVAL 'return 1' 1 a",
    "EVAL 'return 1' 01\nEVAL 'return 1' 99999999999999999999\nEVAL 'return 1' 1.0\neVaL 'return #KEYS' 1 a b",
    "EVAL 'return {#KEYS,#ARGV,KEYS[1],ARGV[1],ARGV[2]}' 1 a b c\nEVAL 'return ARGV' 0 a b\nEVAL 'x' 0\nEVAL 'x' 1",
    "SCRIPT LOAD 'return 1'\nEVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0\nSCRIPT FLUSH\nEVALSHA e0e1 0",
    "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0\nEVALSHA x x\nEVALSHA\nEVALSHA x\nEVALSHA_RO x\nEVAL_RO x",
    "SCRIPT LOAD 'return 1'\nEVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB x\nEVALSHA_RO E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0",
    f"EVALSHA {40 * '0'} x\nEVALSHA {40 * '0'} 1\nEVALSHA {39 * '0'} 1\nEVALSHA_RO {39 * '0'} x\nEVALSHA {40 * 'z'} 0",
    "EVAL_RO 'return 1' 0\nEVAL_RO 'return redis.call(\"set\",\"k\",1)' 0\nEVAL_RO 'return redis.pcall(\"del\",\"k\")' 0",
    "EVAL_RO 'return redis.call(\"get\",\"k\")' 0\nEVAL_RO 'return redis.call(\"set\")' 0\nEVAL_RO 'return redis.call(\"multi\")' 0",
    "SCRIPT\nSCRIPT x\nSCRIPT LOAD\nSCRIPT LOAD a b\nSCRIPT LOAD 'return +'\nSCRIPT LOAD ''\nSCRIPT EXISTS\nSCRIPT EXISTS x y",
    "SCRIPT EXISTS da39a3ee5e6b4b0d3255bfef95601890afd80709 DA39A3EE5E6B4B0D3255BFEF95601890AFD80709\nSCRIPT KILL x",
    "SCRIPT FLUSH x\nSCRIPT FLUSH SYNC\nSCRIPT FLUSH async\nSCRIPT FLUSH SYNC x\nSCRIPT KILL\nSCRIPT HELP x",
    "MULTI\nEVAL 'return 1' 0\nEVALSHA x 0\nSCRIPT LOAD 'return 2'\nSCRIPT EXISTS x\nSCRIPT KILL\nSCRIPT FLUSH\nEVAL x\nEXEC",
    "MULTI\nEVAL 'return redis.call(\"incr\",KEYS[1])' 1 k\nINCR k\nEVALSHA x 0\nSCRIPT LOAD 'return 2'\nEXEC\nGET k",
    "MULTI\nEVAL 'return redis.call(\"set\",KEYS[1],1)' 1 k\nEVAL 'x' 0\nEXEC\nGET k",
    "WATCH k\nEVAL 'return redis.call(\"incr\",KEYS[1])' 1 k\nMULTI\nPING\nEXEC",
    "COMMAND GETKEYS eval x 1 a\nCOMMAND GETKEYS eval x 2 a b c\nCOMMAND GETKEYS eval x 0\nCOMMAND GETKEYS eval x 3 a",
    "COMMAND GETKEYS eval x -1 a\nCOMMAND GETKEYS eval x x a\nCOMMAND GETKEYS eval x\nCOMMAND GETKEYS script load x",
    "COMMAND GETKEYSANDFLAGS eval x 2 a b\nCOMMAND GETKEYSANDFLAGS evalsha_ro x 1 a b\nCOMMAND GETKEYSANDFLAGS eval x 0 a",
    "COMMAND LIST FILTERBY ACLCAT nosuch\nCOMMAND GETKEYS evalsha x 1",
]
# Requests whose replies differ, each with a phrase of docs/resp.md that says so.
DIFFERENT = [
    ("EVAL 'redis.call(\"set\",\"k\",1) error(\"x\")' 0\nGET k", "has changed nothing"),
    ("EVAL 'return redis.call(\"select\",0)' 0", "`SELECT` is not for scripts"), ("SCRIPT DEBUG no", "`SCRIPT DEBUG`"),
    ("EVAL 'return redis.breakpoint()' 0", "`redis.breakpoint`"), ("SCRIPT HELP", "`HELP`"),
    ("EVAL 'return rawget(_G,\"KEYS\") == KEYS' 0", "`rawget` find nothing"),
]
# First lines with flags, each before the end of a line and more.
FLAGS = [
    "#!lua", "#!", "#!not-lua", "#!Lua", " #!lua", "#!lua x", "#!lua badger=data", "#!lua FLAGS=no-writes", "#!lua flags=",
    "#!lua flags=allow-oom,what?", "#!lua flags=no-writes,allow-oom,allow-stale,no-cluster,allow-cross-slot-keys",
    "#!lua flags=no-writes, allow-oom", "#!lua flags=no-writes flags=allow-oom", "#!lua flags=a,,b", "#!lua flags=no-writes,",
    "#!lua flags=,", "#!lua  \t flags=no-writes",
]
# Each is there or not.
GLOBALS = """assert collectgarbage dofile error gcinfo getfenv getmetatable ipairs load loadfile loadstring module newproxy next
pairs pcall print rawequal rawget rawlen rawset require select setfenv setmetatable tonumber tostring type unpack xpcall _G
_VERSION io os debug package server string table math bit cjson cmsgpack struct redis KEYS ARGV""".split()
# Values, which are replies of each protocol, also after redis.setresp(3).
VALUES = r"""
return 1
return 1.9
return -1.9
return 1e300
return -1e300
return 0/0
return 1/0
return -1/0
return 'x'
return ''
return true
return false
return nil
return {}
return {1,2,nil,3}
return {1,{2,{3}}}
return {ok='a'}
return {ok='a\nb\r'}
return {err='a'}
return {err='a b'}
return {err='-a b'}
return {err='a\r\nb\n'}
return {err=''}
return {ok=''}
return {ok=1}
return {err=1}
return {ok='a\0b'}
return {err='a\0b'}
return {double=1.5}
return {double=0.1}
return {double=1/0}
return {double=-1/0}
return {double=0/0}
return {double='1'}
return {double=1e300}
return {big_number='123'}
return {big_number='1\r\n2'}
return {big_number=12}
return {verbatim_string={format='txt',string='abc'}}
return {verbatim_string={format='t',string='abc'}}
return {verbatim_string={format='txtt',string='abc'}}
return {verbatim_string={format='txt'}}
return {verbatim_string={string='x'}}
return {verbatim_string='x'}
return {map={a=1}}
return {map={[1]=2}}
return {map={}}
return {map={a={map={b=true}}}}
return {set={a=true}}
return {set={}}
return {set={x=false}}
return {true,false}
return {'a',nil,'b'}
return {a=1}
return {[1]=1,x=2}
return {[2]=1}
return {1,ok='x'}
return {null=1}
return {attrib=1}
return function() end
return redis
return cjson.null
return KEYS
return ARGV
return _G
return _VERSION
return redis.REDIS_VERSION
return redis.REDIS_VERSION_NUM
return redis.LOG_DEBUG
return redis.REPL_ALL
return redis.REPL_SLAVE
return #KEYS
return #ARGV
return type(redis.call)
return tostring(1e15)
return tostring(nil)
return 1,2
return redis.status_reply('x')
return redis.error_reply('x')
return redis.error_reply('x y')
return redis.error_reply('-x y')
return redis.error_reply('-x')
return redis.error_reply('')
return redis.error_reply('-')
return redis.error_reply('a\nb')
return redis.error_reply('a\n')
return redis.error_reply('\r\na')
return redis.error_reply('A \n b\r\n')
return redis.error_reply()
return redis.error_reply(1)
return redis.error_reply('a','b')
return redis.status_reply()
return redis.status_reply(1)
return redis.status_reply('')
return redis.sha1hex('')
return redis.sha1hex('x')
return redis.sha1hex(1)
return redis.sha1hex()
return redis.sha1hex('a','b')
return redis.sha1hex({})
return redis.sha1hex(nil)
return redis.setresp()
return redis.setresp(1)
return redis.setresp(4)
return redis.setresp('2')
return redis.setresp(3)
return redis.setresp('x')
return redis.setresp(2,3)
return redis.setresp(2.5)
return redis.set_repl()
return redis.set_repl(3)
return redis.set_repl(4)
return redis.set_repl('1')
return redis.set_repl('x')
return redis.set_repl(-1)
return redis.replicate_commands()
return redis.log()
return redis.log(1)
return redis.log('x','y')
return redis.log(5,'y')
return redis.log(-1,'y')
return redis.log(redis.LOG_DEBUG,'y')
return redis.log(0,{})
return redis.acl_check_cmd()
return redis.acl_check_cmd('get','x')
return redis.acl_check_cmd('nosuch')
return redis.acl_check_cmd('GET')
return redis.acl_check_cmd({})
return redis.acl_check_cmd('client','id')
return redis.acl_check_cmd('client','nosuch')
return redis.call('acl','whoami')
return redis.nosuch
return nosuch
return nosuch.x
return redis.x.y
return redis.breakpoint
return cjson.encode
return redis.call
return rawequal(_G,_G)
return _G.KEYS==KEYS
return getmetatable('')
return getmetatable(_G)==nil
""".strip().split("\n")

# Commands, errors, and what a script can reach.
SCRIPTS = r"""
error('x')
error('x',0)
error('x',2)
error()
error(nil)
error({err='x'})
error({err='x y'})
error({err='-x y'})
error(12)
error(true)
error('a\nb\r\n')
error({err='a\nb\r\n'})
error(redis.error_reply('MY code'))
error({err='x',source='s',line=5})
assert(false)
assert(false,'msg')
assert(nil,{err='X y'})
local x = nil; x.y=1
local x = nil + 1
return nosuch
x=1
return {}..'x'
local ok,e = pcall(error,{err='X'}) return e
local ok,e=pcall(error,'X') return e
local ok,e=pcall(redis.call,'nosuch') return e
local ok,e=pcall(redis.call,'nosuch') return type(e)
local ok,e=pcall(redis.call,'incr','s') return e
local ok,e=xpcall(function() redis.call('nosuch') end,function(x) return x end) return type(e)
local ok,e=xpcall(function() redis.call('nosuch') end,function(x) return x.err end) return e
local ok,e=xpcall(error,function(x) return x end) return {ok,e}
return redis.pcall('nosuch').err
return redis.pcall('nosuch')
return redis.call('nosuch')
return redis.call()
return redis.pcall()
return redis.call({})
return redis.call('get')
return redis.call('get','a','b')
return redis.call('get',nil)
return redis.call(nil)
return redis.call(1)
return redis.call('get',true)
return redis.call('get',1.5)
return redis.call('set','k',1.5)
redis.call('set','k',1/3) return redis.call('get','k')
redis.call('set','k',1e20) return redis.call('get','k')
redis.call('set','k',-0) return redis.call('get','k')
redis.call('set','k',0/0) return redis.call('get','k')
redis.call('set','k',1/0) return redis.call('get','k')
return redis.call('set','k','v')
return redis.call('get','nosuch')
return redis.call('mget','a','b')
return redis.call('time')[3]
return redis.call('multi')
return redis.call('exec')
return redis.call('watch','k')
return redis.call('auth','x')
return redis.call('auth')
return redis.call('hello')
return redis.call('eval','return 1',0)
return redis.call('eval')
return redis.call('script','load','x')
return redis.call('script','nosuch')
return redis.call('script')
return redis.call('client','id')
return redis.call('client','nosuch')
return redis.call('client')
return redis.call('config','get','save')
return redis.call('config')
return redis.call('shutdown')
return redis.call('save')
return redis.call('bgsave')
return redis.call('quit')
return redis.call('reset')
return redis.call('role')
return redis.call('wait',0,0)
return redis.call('command','count')==0
return redis.call('command','nosuch')
return redis.call('acl','whoami')
return redis.call('object','encoding','k')
return redis.call('object','nosuch','k')
return redis.call('memory','usage','nosuch')
return redis.call('latency','latest')
return redis.call('latency','reset')
return redis.call('dbsize')
return redis.call('randomkey')
return redis.call('keys','*')
return redis.call('scan',0)
return redis.call('echo','x')
return redis.call('ping')
return redis.call('ping','x')
return redis.call('type','k')
return redis.call('unwatch')
return redis.call('discard')
return redis.call('expire','k','x')
return redis.call('set','k','v','EX',0)
return redis.call('set','k','v','FOO')
redis.call('set','k','v','PX',100000) return redis.call('pttl','k') > 0
return redis.call('GeT','k')
return redis.call('copy','a','b')
return redis.call('rename','a','b')
return redis.call('incr','s')
return redis.call('incrbyfloat','f',0.1)
return redis.call('bitfield','b','incrby','u8',0,300,'overflow','fail','incrby','u8',0,300)
return redis.call('setrange','k',-1,'x')
return redis.call('getdel','nosuch')
return redis.call('getex','nosuch')
return redis.call('append','k','x')
return redis.call('msetnx','a',1,'b',2)
return redis.call('mset','a',1,'b')
return redis.call('bitop','and','d','a','b')
return redis.call('expire','s',100,'NX')
redis.setresp(3) return redis.call('get','nosuch')
redis.setresp(3) return redis.call('mget','nosuch','s')
redis.setresp(3) return type(redis.call('get','nosuch'))
redis.setresp(3) return redis.call('incrbyfloat','f',1)
redis.setresp(3) redis.setresp(2) return redis.call('get','nosuch')==false
return string.format('%s %d %5.2f %q',1,2,3.14159,'x"y')
return tostring({})=='x'
return #tostring(redis.call)>0
return loadstring('return 1+1')()
return select('#',loadstring('x x'))
return select(2,loadstring('x x'))
return select(2,loadstring('x x','=n'))
local a,b=pcall(loadstring,nil) return b
return load(function() end)
return string.rep('x',3)
return ('x'):rep(3)
return table.concat({1,2,3},',')
return table.maxn({1,[10]=2})
return table.getn({1,2})
return math.pow(2,3)
return math.mod(5,3)
return math.huge
return unpack({1,2,3})
return {unpack({1,2,3})}
return tonumber('0x10')
return tonumber('z',36)
return tonumber('x')
return os
return io
return require
return debug
return package
return newproxy
return print
return dofile
return loadfile
return module
return gcinfo()>0
return collectgarbage('count')>0
return collectgarbage('x')
return math.random(0)
return math.random(1,0)
return math.random(1,1)
return math.random(1,2,3)
math.randomseed(1) return tostring(math.random())
math.randomseed(7) return math.random(1000)
math.randomseed(7) math.random() return math.random(5,500)
math.randomseed(-5) return math.random(1000000)
math.randomseed(0) return {math.random(100),math.random(100),math.random(100)}
KEYS={} return 1
KEYS[1]='x' return KEYS[1]
ARGV.x=1 return ARGV.x
_G={} return 1
_G.x=1
rawset(_G,'x',1)
setmetatable(_G,{})
getmetatable(_G).__index=1
redis.x=1
redis.call=1
string.x=1
local s='x' s.y=1
getmetatable('').x=1
table.insert(redis,1)
table.insert(_G,1)
setfenv(1,{}) return 1
return getfenv(1)==_G
return getfenv(0)==_G
local t=setmetatable({},{__index=function(t,k) return k end}) return t.abc
return next({})
return {pairs({})}
return type(next)
for k,v in ipairs({1,2}) do if v==2 then return k end end
return 1 --x
return 1;
return
  return 1
return 1 return 2
return +
x x
return 'a
return '\65'
return "\0"
goto x
return 1 // 2
return 1 ~= 2
local function f(n) if n==0 then return 0 end return f(n-1) end return f(10000)
local function f(n) return n==0 and 0 or 1+f(n-1) end return f(1000)
local function f(n) return 1+f(n+1) end return f(0)
return string.rep('x',100,'y')
return string.dump
return string.gsub('abc','b','%1')
return string.find('a+b','+',1,true)
return ('%d'):format('x')
return ('x'):bad()
return string.byte('abc',1,-1)
return string.char(65,66)
return string.char(256)
return string.format('%c',65)
return string.format('%i',3.7)
return string.format('%x',-1)
return string.format('%5s|%-5s|','a','b')
return string.format('%y',1)
return string.format('%s')
""".strip().split("\n")

# Of the libraries.
LIBRARIES = r"""
return cjson.encode({1,2,3})
return cjson.encode({})
return cjson.encode({a=1})
return cjson.encode('x"\\\n\1/')
return cjson.encode(1.5)
return cjson.encode(1e20)
return cjson.encode(0.1)
return cjson.encode(1/3)
return cjson.encode(123456789012345)
return cjson.encode(nil)
return cjson.encode(cjson.null)
return cjson.encode(true)
return cjson.encode(0/0)
return cjson.encode(1/0)
return cjson.encode({1,nil,3})
return cjson.encode({[5]=1})
return cjson.encode({[100]=1})
return cjson.encode({[1]=1,[20]=2})
return cjson.encode({[1.5]=1})
return cjson.encode({[-1]=1})
return cjson.encode({[{}]=1})
return cjson.encode(function() end)
return cjson.encode()
return cjson.encode(1,2)
return cjson.decode('[1,2,3]')
return cjson.decode('{"a":[1,{"b":null}]}').a[2].b==cjson.null
return cjson.decode('x')
return cjson.decode('')
return cjson.decode('[1,')
return cjson.decode('[1 2]')
return cjson.decode('{"a" 1}')
return cjson.decode('{a:1}')
return cjson.decode('"\\u00e9\\ud83d\\ude00"')
return cjson.decode('"\\ud83d"')
return cjson.decode('"\\x"')
return cjson.decode('nul')
return cjson.decode('null')==cjson.null
return cjson.decode('1e5')
return cjson.decode('0x10')
return cjson.decode('nan')
return cjson.decode('-')
return cjson.decode('01')
return cjson.decode('[1,2,]')
return cjson.decode('{"a":1,}')
return cjson.decode(nil)
return cjson.decode({})
return cjson.decode(5)
return cjson.decode('1 x')
return cjson.decode('[' .. ('['):rep(2000))
return cjson.encode_max_depth()
return cjson.decode_max_depth()
return cjson.encode_sparse_array()
return cjson.encode_number_precision()
return cjson.encode_number_precision(20)
return cjson.encode_keep_buffer()
return cjson.encode_invalid_numbers()
return cjson.decode_invalid_numbers()
return tostring(cjson.null)=='x'
return type(cjson.null)
return cjson.encode({a={b={c={}}}})
return cjson.decode('{"a":1,"a":2}').a
return cjson.encode('\127\200')
return cjson.encode(('x'):rep(100))
return cjson.decode('"\0"')
return cjson.decode('[true,false,null]')[3]==cjson.null
return cjson.encode({true,false})
return cjson.encode({[1]=1,a=2})
return cjson.encode(-0)
return cjson.encode(1e-7)
return cjson.decode('1e400')
return cjson.decode('  [ ]  ')
local t={} t[1]=t return cjson.encode(t)
return struct.pack('>I2i4',1,-2)
return struct.unpack('>I2i4',struct.pack('>I2i4',1,-2))
return {struct.unpack('<d',struct.pack('<d',1.5))}
return struct.pack('s','abc')
return struct.pack('c0','abc')
return struct.size('>I2i4')
return struct.size('s')
return struct.pack('z',1)
return struct.unpack('I4','abc')
return struct.unpack('I4','abcd',2)
return struct.pack('i17',1)
return struct.pack('!4bi4',1,2)
return struct.pack('bBhHlLTfdxI3',1,2,3,4,5,6,7,1.5,2.5,9)
return struct.pack('i','x')
return struct.pack()
return struct.unpack('bc0','\3abcdef')
return bit.tobit(0xffffffff)
return bit.tohex(255)
return bit.tohex(255,4)
return bit.tohex(255,-4)
return bit.bnot(0)
return bit.band(0xff,0x0f)
return bit.bor(1,2)
return bit.bxor(3,1)
return bit.lshift(1,31)
return bit.lshift(1,33)
return bit.rshift(-1,28)
return bit.arshift(-256,4)
return bit.rol(0x12345678,12)
return bit.ror(0x12345678,12)
return bit.bswap(0x12345678)
return bit.band()
return bit.band('x')
return bit.tobit(2^40+5)
return bit.tobit(1.5)
return bit.tobit(-1.5)
return bit.tobit('0x10')
return cmsgpack.pack(1)
return cmsgpack.pack(-1)
return cmsgpack.pack(300)
return cmsgpack.pack(70000)
return cmsgpack.pack(2^33)
return cmsgpack.pack(-2^33)
return cmsgpack.pack(1.5)
return cmsgpack.pack(0.1)
return cmsgpack.pack('abc')
return cmsgpack.pack(('x'):rep(40))
return cmsgpack.pack(('x'):rep(300))
return cmsgpack.pack({})
return cmsgpack.pack({1,2})
return cmsgpack.pack({a=1})
return cmsgpack.pack(nil)
return cmsgpack.pack(true,false)
return cmsgpack.pack()
return cmsgpack.pack({1,nil,3})
return cmsgpack.pack({[2]=1})
return cmsgpack.pack(function() end)
return cmsgpack.unpack('\1')
return cmsgpack.unpack('')
return cmsgpack.unpack('\193')
return cmsgpack.unpack('\145')
return cmsgpack.unpack(5)
return cmsgpack.unpack({})
return {cmsgpack.unpack('\1\2\3')}
return {cmsgpack.unpack_one('\1\2\3')}
return {cmsgpack.unpack_one('\1\2\3',1)}
return {cmsgpack.unpack_one('\1',9)}
return {cmsgpack.unpack_limit('\1\2\3',2)}
return {cmsgpack.unpack_limit('\1\2\3',2,1)}
return cmsgpack.unpack_limit('\1')
return cmsgpack.unpack(cmsgpack.pack({1,{2,{a='b'}}}))
return cmsgpack.unpack('\202\63\128\0\0')
return cmsgpack.unpack('\196\1x')
return cmsgpack.unpack('\207\255\255\255\255\255\255\255\255')
return cmsgpack.unpack('\199\1\1x')
return cjson._VERSION
return cjson._NAME
return cmsgpack._VERSION
return cmsgpack._NAME
""".strip().split("\n")


def quoted(text):
    """As a word of a line."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return f'"{text}"'


def all_requests():
    requests = list(SAME)
    for script in VALUES:
        requests += [f"EVAL {quoted(before + script)} 1 k a b" for before in ("", "redis.setresp(3) ")]
    for script in SCRIPTS + LIBRARIES + [f"return type({name})" for name in GLOBALS]:
        requests.append(f"SET s text\nEVAL {quoted(script)} 0")
    for first in FLAGS:
        for rest in ("", "\nreturn redis.call('set', 'k', 1)", "\n\nreturn +"):
            text = quoted(first + rest)
            requests.append(f"EVAL {text} 0\nEVAL_RO {text} 0\nSCRIPT LOAD {text}")
    return requests
