"""like_redis.py SOCKET SOCKET PAGE: okv and Redis 7.0 at two Unix sockets get the same requests, and give replies
that are the same byte by byte. What DIFFERENT has does differ, and PAGE, which is docs/resp.md, says so."""
import socket
import sys

import like_redis_scripts as scripts

END = b"$7\r\nthe end\r\n"

# Requests of one connection to an empty database, a line each, as people type them.
SAME = [
    # What is no request.
    "*01\r\n$4\r\nPING", "*-0\r\nPING", "*0\r\nPING", "*-1\r\nPING", "*+1\r\n$4\r\nPING", "*\r\nPING", "* 1\r\n",
    "*1\r\n$04\r\nPING", "*1\r\n$-0", "*1\r\n$-1", "*1\r\n$\r\nPING", "*1\r\n$0\r\n\r\nPING", "*1\r\n\r\n",
    "*9223372036854775808\r\n", '"PING', 'PING "a"b', "  \r\nPING", "SET 'a b' \"c\\x41\"\nGET 'a b'",
    "nosuch", "nosuch a b", "nosuch " + 200 * "x" + " y", "nosuch " + 100 * "x" + " " + 100 * "y" + " z", 200 * "x",
    # Strings.
    "SET k v EX 1 EX 2\nSET k v PX 1000 PX 2000 NX\nSET k v XX XX\nSET k v KEEPTTL KEEPTTL\nSET k v GET GET\nGET k",
    "SET k v EX 1 PX 2\nSET k v NX XX\nSET k v XX NX\nSET k v KEEPTTL EX 1\nSET k v EX 1 KEEPTTL\nSET k v EX",
    "SET k v EX 0\nSET k v EX -1\nSET k v EX x\nSET k v EX x FOO\nSET k v FOO EX x\nSET k v EX 0 NX XX\nSET k v EX EX",
    "SET k v PERSIST\nSET k v EX 9223372036854775807\nSET k v PX 9223372036854775807\nSET k v EX 01",
    "SET k v\nSET k w EXAT 1\nGET k\nSET k w XX GET\nSET k w NX GET\nSET k x NX GET\nSET k y GET\nGET k",
    "GETEX no EX 0\nGETEX no EX x\nGETEX no EX 9223372036854775807\nGETEX no EX\nGETEX no FOO\nGETEX no PERSIST EX 1",
    "GETEX no EX 1 PERSIST\nGETEX no PERSIST PERSIST\nGETEX no EX 1 EX 2\nGETEX no EX 1 PX 1\nGETEX no KEEPTTL",
    "SET k v\nGETEX k EX 0\nGETEX k EX x\nGETEX k EX x FOO\nGETEX k EX 1 EX 200\nTTL k\nGETEX k PERSIST PERSIST\nTTL k",
    "SET k v\nGETEX k\nGETEX k EXAT 1\nGET k\nSETEX k 0 v\nSETEX k x v\nPSETEX k -1 v\nSETEX k 9223372036854775807 v",
    "MSET a 1 b\nMSETNX a 1 b\nMSET a 1 b 2\nMSETNX b 1 c 2\nMGET a b c\nGETSET a 3\nGETDEL a\nGETDEL a\nSETNX b 1",
    "APPEND k abc\nSTRLEN k\nGETRANGE k 1 -1\nGETRANGE k -100 1\nGETRANGE k 2 1\nGETRANGE k 01 2\nSUBSTR k 0 0",
    "SETRANGE k -1 a\nSETRANGE k x a\nSETRANGE k 5 ''\nGET k\nSETRANGE k 3 abc\nGET k\nSETRANGE k 900000000 ''",
    "GETBIT k 4294967295\nGETBIT k 4294967296\nGETBIT k -1\nGETBIT k x\nSETBIT k 4294967296 1\nSETBIT k -1 1",
    "BITCOUNT k 1\nBITCOUNT k x\nBITCOUNT k x y\nSET k abc\nBITCOUNT k\nBITCOUNT k 1\nBITCOUNT k x 1\nBITCOUNT k 0 1 x",
    "BITPOS k 2\nBITPOS k x\nBITPOS k 1 x\nSET k abc\nBITPOS k 1\nBITPOS k 0 1\nBITPOS k 1 0 1 x\nBITPOS k 1 x 1",
    "BITOP x a b\nBITOP NOT a b c\nBITOP AND a\nBITOP AND a b\nSET b abc\nBITOP NOT a b\nGET a\nBITOP xor a a b\nBITCOUNT a",
    "BITFIELD k GET u64 0\nBITFIELD k GET i65 0\nBITFIELD k GET x8 0\nBITFIELD k GET u8\nBITFIELD k SET u8 0\nBITFIELD k x",
    "BITFIELD k GET u8 -1\nBITFIELD k GET u8 #x\nBITFIELD k GET u8 4294967296\nBITFIELD k SET u8 0 x\nBITFIELD k OVERFLOW x",
    "BITFIELD k OVERFLOW\nBITFIELD k\nBITFIELD_RO k SET u8 0 1\nBITFIELD k SET u8 #1 200 OVERFLOW FAIL INCRBY u8 #1 99\nGET k",
    "SETBIT k 0 2\nSETBIT k 0 x\nSETBIT k 7 1\nGET k\nGETBIT k 7\nSETBIT k 7 0\nGETBIT k 7\nGETBIT k 4294967295",
    # Numbers.
    "SET k 007\nINCR k\nSET k -0\nINCR k\nSET k ' 1'\nINCR k\nSET k ''\nINCR k\nSET k 12345678901234567890\nINCR k",
    "INCRBY k 007\nINCRBY k +1\nINCRBY k x\nDECRBY k 9223372036854775808\nDECRBY k -9223372036854775808\nINCRBY k -5",
    "SET k 9223372036854775807\nINCR k\nDECR k\nSET k -9223372036854775808\nDECR k\nINCR k",
    "SET k 1.7e308\nINCRBYFLOAT k 1\nINCRBYFLOAT k 1\nINCRBYFLOAT k -1.7e308\nSTRLEN k", # 309 digits
    "SET k 1\nINCRBYFLOAT k 1e-99999\nINCRBYFLOAT k 1e99999\nINCRBYFLOAT k nan\nINCRBYFLOAT k inf\nINCRBYFLOAT k ' 1'",
    "INCRBYFLOAT k 3.0\nINCRBYFLOAT k 1e-20\nINCRBYFLOAT k -0\nINCRBYFLOAT k 0x10\nINCRBYFLOAT k 5.0e3\nINCRBYFLOAT k x",
    "SET k 1e-99999\nINCRBYFLOAT k 1\nSET k -0\nINCRBYFLOAT k 0\nSET k ''\nINCRBYFLOAT k 1\nSET k 1x\nINCRBYFLOAT k 1",
    "INCRBYFLOAT k 0." + 1000 * "0" + "\nINCRBYFLOAT k " + 900 * "0" + "7\nGET k",
    # Keys.
    "COPY a\nCOPY a a\nCOPY a b DB\nCOPY a b DB nosuch\nMOVE a nosuch\nCOPY a b BOGUS\nCOPY no b\nSET a 1\nCOPY a b\nCOPY a b\nCOPY a b REPLACE",
    "RENAME no b\nRENAME no no\nRENAMENX no b\nSET a 1\nRENAME a a\nRENAMENX a a\nRENAME a b\nEXISTS a b b\nRENAMENX b b",
    "MOVE k 0\nMOVE no 1\nSET k v\nMOVE k 1\nMOVE k 1\nTYPE k\nTYPE no\nTOUCH k no\nUNLINK k no\nDEL k",
    "SCAN x\nSCAN 0 COUNT 0\nSCAN 0 COUNT x\nSCAN 0 COUNT -1\nSCAN 0 COUNT\nSCAN 0 BOGUS x\nSCAN 0 MATCH\nSCAN 0 COUNT x MATCH",
    "SCAN 0\nSCAN 0 TYPE nosuch\nSCAN 00\nSCAN ' 1'\nSET k v\nSCAN 0 COUNT 100\nSCAN 0 MATCH x* COUNT 100\nKEYS *\nKEYS x",
    "OBJECT ENCODING no\nOBJECT REFCOUNT no\nOBJECT FREQ no\nSET k 1\nOBJECT FREQ k\nOBJECT ENCODING k\nSET k v\nOBJECT ENCODING k\nOBJECT BOGUS k\nOBJECT",
    "SET k v\nMEMORY USAGE k BOGUS 1\nMEMORY USAGE k SAMPLES\nMEMORY USAGE k SAMPLES -1\nMEMORY USAGE k SAMPLES x",
    "MEMORY USAGE no\nMEMORY USAGE no SAMPLES 0 SAMPLES 1\nMEMORY USAGE no BOGUS 1\nMEMORY BOGUS\nMEMORY USAGE",
    # Times to live.
    "EXPIRE no x\nEXPIRE no 9223372036854775807\nEXPIRE no 10 BOGUS\nEXPIRE no x BOGUS\nEXPIRE no x NX XX\nEXPIRE no 10",
    "SET k v\nEXPIRE k 10 NX XX\nEXPIRE k 10 GT LT\nEXPIRE k 10 NX GT\nEXPIRE k 10 NX NX\nEXPIRE k 10 NX\nEXPIRE k 5 GT",
    "SET k v\nEXPIRE k 10 XX GT\nEXPIRE k -1 GT\nTTL k\nEXPIRE k -1 LT\nTTL k\nPEXPIRE k 9223372036854775807",
    "SET k v\nEXPIREAT k 4102444800\nEXPIRETIME k\nPEXPIRETIME k\nPERSIST k\nPERSIST k\nTTL k\nEXPIRETIME k\nPTTL no",
    "SET k v\nEXPIREAT k 9223372036854775807\nPEXPIREAT k -9223372036854775808\nEXISTS k",
    # Transactions.
    "MULTI\nCOMMAND BOGUS\nPING\nEXEC\nPING", "MULTI\nCLIENT BOGUS\nEXEC", "MULTI\nGET\nEXEC", "MULTI\nnosuch\nEXEC",
    "MULTI\nMULTI\nWATCH a\nPING\nEXEC", "MULTI\nWATCH\nEXEC", "MULTI\nEXEC a\nEXEC\nPING", "MULTI\nDISCARD a\nDISCARD",
    "MULTI\nRESET\nEXEC", "MULTI\nUNWATCH\nEXEC", "MULTI\nSET a 1\nINCR a\nGET a\nGET a b\nEXEC\nGET a", "EXEC\nDISCARD",
    "MULTI\nSET a x\nINCR a\nCOMMAND COUNT x\nEXEC", "MULTI\nSET a x\nINCR a\nCOMMAND INFO nosuch get\nEXEC\nEXEC a",
    "WATCH a\nSET a 1\nMULTI\nPING\nEXEC\nMULTI\nPING\nDISCARD\nUNWATCH\nWATCH a b\nMULTI\nGET a\nEXEC", "MULTI\nQUIT",
    # Connections.
    "CLIENT REPLY SKIP\nCLIENT REPLY SKIP\nPING\nECHO a", "CLIENT REPLY SKIP\nCLIENT REPLY BOGUS\nPING",
    "CLIENT REPLY SKIP\nCLIENT REPLY SKIP\nCLIENT REPLY SKIP\nPING\nECHO a", "CLIENT REPLY SKIP\nCLIENT REPLY ON\nPING",
    "CLIENT REPLY SKIP\nCLIENT REPLY OFF\nPING\nCLIENT REPLY ON", "CLIENT REPLY OFF\nCLIENT REPLY SKIP\nPING\nCLIENT REPLY ON",
    "CLIENT REPLY OFF\nPING\nRESET\nPING", "CLIENT REPLY SKIP\nRESET\nPING", "CLIENT REPLY SKIP\nMULTI\nPING\nEXEC\nPING", "CLIENT REPLY x\nCLIENT\nCLIENT BOGUS",
    "CLIENT NO-EVICT x\nCLIENT NO-EVICT on\nCLIENT NO-EVICT OFF\nCLIENT ID x\nCLIENT INFO x\nCLIENT SETNAME a b",
    "CLIENT GETNAME\nCLIENT SETNAME 'a b'\nCLIENT SETNAME a\nCLIENT GETNAME\nCLIENT SETNAME ''\nCLIENT GETNAME",
    "CLIENT SETNAME a\nRESET\nCLIENT GETNAME", "HELLO x\nHELLO 1\nHELLO 4\nHELLO 3 AUTH a\nHELLO 3 BOGUS\nHELLO 2 SETNAME",
    "HELLO 3 SETNAME 'a b'\nHELLO 3 SETNAME 'a b' AUTH a b\nHELLO 3 AUTH a b\nGET no",
    "CLIENT KILL\nCLIENT KILL x\nCLIENT KILL ID\nCLIENT KILL ID x\nCLIENT KILL ID 0\nCLIENT KILL TYPE x\nCLIENT KILL BOGUS x",
    "CLIENT KILL USER nosuch\nCLIENT KILL SKIPME x\nCLIENT KILL ADDR 1.2.3.4:5\nCLIENT KILL 1.2.3.4:5\nCLIENT KILL ID 1 ID",
    "CLIENT LIST TYPE x\nCLIENT LIST TYPE pubsub\nCLIENT LIST ID x\nCLIENT LIST ID\nCLIENT LIST BOGUS\nCLIENT LIST ID 0 999999",
    "AUTH\nAUTH a\nAUTH a b\nAUTH a b c\nAUTH default x\nPING a b\nPING a\nECHO\nECHO a b\nSELECT\nSELECT 0", "QUIT a",
    # The server.
    "SLOWLOG GET -2\nSLOWLOG GET x\nSLOWLOG GET 0\nSLOWLOG GET 1 2\nSLOWLOG LEN x\nSLOWLOG RESET x\nSLOWLOG\nSLOWLOG BOGUS",
    "SLOWLOG RESET\nLATENCY HISTORY a\nLATENCY RESET a b\nLATENCY LATEST\nLATENCY LATEST x\nLATENCY BOGUS\nLATENCY HISTORY",
    "CONFIG GET bogus\nCONFIG GET\nCONFIG SET a\nCONFIG SET a b c\nCONFIG BOGUS\nCONFIG GET save\nINFO bogus\nROLE\nROLE a",
    "TIME a\nDBSIZE\nDBSIZE a\nFLUSHDB x\nFLUSHALL SYNC x\nFLUSHALL ASYNC\nFLUSHDB SYNC\nRANDOMKEY\nRANDOMKEY a",
    "ACL\nACL BOGUS x\nACL WHOAMI\nACL WHOAMI x\nSAVE x\nBGSAVE x\nBGSAVE SCHEDULE x\nLASTSAVE x", "MULTI\nSAVE\nSHUTDOWN\nEXEC",
    "WAIT 0 0\nWAIT 1 1\nWAIT x 0\nWAIT 0 x\nWAIT 0 -1\nSHUTDOWN x\nSHUTDOWN ABORT\nSHUTDOWN ABORT NOW\nSHUTDOWN SAVE NOSAVE",
    "CONFIG SET TimeOut x\nCONFIG SET timeout 5 timeout 6\nCONFIG SET timeout 5 nosuch 1\nCONFIG GET timeout",
    "CONFIG SET timeout 500 TIMEOUT 600\nCONFIG SET TimeOut 500\nCONFIG GET timeout\nCONFIG SET timeout 0\nCONFIG GET timeout",
    "COMMAND BOGUS\nCOMMAND COUNT x\nCOMMAND INFO nosuch\nCOMMAND INFO get nosuch client|id client|nosuch GET|x CLIENT|ID",
    "COMMAND DOCS nosuch\nCOMMAND LIST x\nCOMMAND LIST FILTERBY\nCOMMAND LIST FILTERBY PATTERN\nCOMMAND LIST FILTERBY BOGUS x",
    "COMMAND LIST FILTERBY PATTERN a b\nCOMMAND LIST FILTERBY PATTERN nosuch\nCOMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY MODULE x\nCOMMAND LIST filterby pattern GETD*\nCOMMAND LIST FILTERBY ACLCAT @string",
    "COMMAND GETKEYS\nCOMMAND GETKEYS get\nCOMMAND GETKEYS get a\nCOMMAND GETKEYS nosuch a\nCOMMAND GETKEYS ping a",
    "COMMAND GETKEYS get a b\nCOMMAND GETKEYS client\nCOMMAND GETKEYS client nosuch\nCOMMAND GETKEYS object bogus k",
    "COMMAND GETKEYS object encoding k\nCOMMAND GETKEYS memory usage k\nCOMMAND GETKEYS mset a 1 b\nCOMMAND GETKEYS client|id x",
    "COMMAND GETKEYSANDFLAGS\nCOMMAND GETKEYSANDFLAGS nosuch a\nCOMMAND GETKEYSANDFLAGS client id\nCOMMAND GETKEYS mget a b c",
    "COMMAND GETKEYSANDFLAGS set a 1\nCOMMAND GETKEYSANDFLAGS set a 1 XX EX 5 get\nCOMMAND GETKEYSANDFLAGS set GET GET",
    "COMMAND GETKEYSANDFLAGS bitop not a b c\nCOMMAND GETKEYSANDFLAGS bitfield get get u8 0 get\nCOMMAND GETKEYS bitop a b c",
    "COMMAND GETKEYSANDFLAGS bitfield k get u8 set\nCOMMAND GETKEYSANDFLAGS bitfield k overflow sat overflow",
    "COMMAND GETKEYSANDFLAGS bitfield k get u8 0 incrby u8 0 1\nCOMMAND GETKEYSANDFLAGS bitfield_ro k set u8 0 1",
    "COMMAND GETKEYSANDFLAGS rename a b\nCOMMAND GETKEYSANDFLAGS copy a b DB 1\nCOMMAND GETKEYSANDFLAGS mset a 1 b 2",
]
# Requests whose replies differ, each with a phrase of docs/resp.md that says so.
DIFFERENT = [
    ("MULTI\nAUTH a\nEXEC", "not within `MULTI`"), ("MULTI\nHELLO 3\nEXEC", "not within `MULTI`"),
    ("MULTI\nCLIENT REPLY ON\nEXEC", "not within `MULTI`"), ("MULTI\nSELECT 0\nEXEC", "not within `MULTI`"),
    ("MULTI\nFLUSHDB\nEXEC", "Not within `MULTI`"), ("MULTI\nMOVE a 1\nEXEC", "not within `MULTI`"),
    ("SET '' v", "have 1 to 1024 bytes"), ("*1048577\r\n", "1,048,576"), ("SETBIT k 536870912 1", "at most 64 MiB"),
    ("SCAN 281474976710656", "others are refused"), ("SELECT x", "the name of a database"),
    ("COPY a b DB 99", "the name of a database"), ("MOVE a 99", "the name of a database"),
    ("SELECT -1", "`SELECT 1` needs"), ("LPUSH k v", "name what okv lacks"), ("SAVE", "`SAVE`"), ("BGSAVE", "`BGSAVE`"),
    ("CONFIG SET save ''", "`CONFIG SET`"),
    ("SET k 1e400\nINCRBYFLOAT k 1", "as doubles have"), ("SET k " + 1100 * "0" + "\nINCRBYFLOAT k 1", "1,023"),
    ("CLIENT SETNAME " + 64 * "n", "63 characters"), ("CONFIG SET maxmemory 0", "`CONFIG SET`"),
    ("SET k v\nMEMORY USAGE k", "`MEMORY USAGE`"), ("COMMAND DOCS get", "`COMMAND DOCS`"),
    ("OBJECT HELP", "`HELP`"), ("HELLO 3 AUTH a b BOGUS", "`HELLO` reads all options"),
]
# Subcommands and commands of later releases of Redis.
ONLY_OKV = {"client|no-touch", "client|setinfo"}
# Commands whose replies have values of the server, or that would end it.
OTHERS = {"bgsave", "client|id", "client|info", "client|list", "config|set", "info", "move", "quit", "save", "select",
          "shutdown", "time"}


class Server:
    """Connections to a server, in RESP2."""

    def __init__(self, address):
        self.address = address

    def ask(self, text):
        """Sends the lines and returns the bytes of all replies, with that of RESET, or until the connection ends."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.address)
            connection.settimeout(60)
            text += "\nRESET\nECHO 'the end'\n"
            connection.sendall(text.replace("\r\n", "\n").replace("\n", "\r\n").encode())
            replies = b""
            while not replies.endswith(END):
                try:
                    got = connection.recv(1 << 20)
                except ConnectionResetError:
                    got = b""
                if not got:
                    return replies + b"(ends)"
                replies += got
        return replies[:-len(END)]

    def ask_anew(self, text):
        self.ask("FLUSHALL")
        return self.ask(text)

    def ask_in_resp3(self, text):
        return self.ask_anew("HELLO 3\nECHO begin\n" + text).partition(b"$5\r\nbegin\r\n")[2]

    def values(self, text):
        """The replies as values: lists of elements behind their type, or lines."""
        lines = Lines(self.ask(text))
        values = []
        while lines.has_more():
            values.append(lines.value())
        return values


class Lines:
    def __init__(self, replies):
        self.replies, self.at = replies, 0

    def has_more(self):
        return self.at < len(self.replies)

    def line(self):
        start, self.at = self.at, self.replies.index(b"\r\n", self.at) + 2
        return self.replies[start:self.at - 2].decode()

    def value(self):
        head = self.line()
        kind, count = head[0], head[1:]
        if kind in "$=" and count != "-1":
            start, self.at = self.at, self.at + int(count) + 2
            return kind + self.replies[start:self.at - 2].decode()
        if kind not in "*~%":
            return head
        return [kind] + [self.value() for _ in range(int(count) * (2 if kind == "%" else 1))]


wrong = checks = 0


def check(what, okv, redis, is_same=True):
    global wrong, checks
    checks += 1
    if (okv == redis) != is_same:
        wrong += 1
        print(f"WRONG {what[:200]!r}:{'' if is_same else ' the same'}")
        print(f"  okv    {str(okv)[:2000]}\n  Redis  {str(redis)[:2000]}")


def without_parts(entry, kept):
    """An entry of COMMAND whose subcommands are those kept, by name."""
    parts = sorted((part for part in entry[-1][1:] if part[1][1:] in kept), key=lambda part: part[1])
    return entry[:-1] + [["~ or *"] + parts]


def compare_commands(okv, redis, protocol):
    """COMMAND INFO of each, where elements are the same down to their types."""
    hello = f"HELLO {protocol}\n"
    names = [name[1:] for name in okv.values("COMMAND LIST")[0][1:]]
    known = {name[1:] for name in redis.values("COMMAND LIST")[0][1:]}
    check("commands of later releases", set(names) - known, ONLY_OKV)
    for name in names:
        if name in ONLY_OKV:
            continue
        own, other = okv.values(hello + "COMMAND INFO " + name), redis.values(hello + "COMMAND INFO " + name)
        own, other = own[1][1], other[1][1]
        check(f"COMMAND INFO {name}", without_parts(own, known), without_parts(other, names))
        check(f"type of the subcommands of {name}", own[-1][0], other[-1][0])
    return names


def compare_lists(okv, redis, names):
    """COMMAND LIST by category, and that all of COMMAND tell of the same commands."""
    categories = {category[2:] for name in names for category in okv.values("COMMAND INFO " + name)[0][1][7][1:]}
    for category in sorted(categories):
        ask = "COMMAND LIST FILTERBY ACLCAT " + category
        listed = {name[1:] for name in redis.values(ask)[0][1:]} & set(names)
        check(ask, {name[1:] for name in okv.values(ask)[0][1:]} - ONLY_OKV, listed)
    whole = {name for name in names if "|" not in name}
    told = okv.values("COMMAND COUNT\nCOMMAND\nCOMMAND INFO\nCOMMAND DOCS")
    check("COMMAND COUNT", told[0], f":{len(whole)}")
    check("COMMAND", {entry[1][1:] for entry in told[1][1:]}, whole)
    check("COMMAND and COMMAND INFO", told[1], told[2])
    check("COMMAND DOCS", {name[1:] for name in told[3][1::2]}, whole)
    docs = {whole: dict(zip(docs[1::2], docs[2::2])) for whole, docs in zip(told[3][1::2], told[3][2::2])}
    parts = {name[1:] for each in docs.values() for name in each.get("$subcommands", ["*"])[1::2]}
    check("subcommands of COMMAND DOCS", parts, {name for name in names if "|" in name})


def compare_arguments(okv, redis, names):
    """Each command with up to four arguments that mean nothing: the same errors, or replies of the same type."""
    for name in names:
        for count in range(5):
            words = name.replace("|", " ") + count * " x"
            keys = f"COMMAND GETKEYSANDFLAGS {words}\nCOMMAND GETKEYS {words}"
            if name not in ONLY_OKV:
                check(keys, okv.ask(keys), redis.ask(keys))
            if name in ONLY_OKV | OTHERS or name.endswith("|help"):
                continue
            own, other = okv.ask_anew(words), redis.ask_anew(words)
            is_error = own[:1] == b"-" or other[:1] == b"-"
            check(words, own if is_error else own[:1], other if is_error else other[:1])


def main():
    okv, redis = Server(sys.argv[1]), Server(sys.argv[2])
    with open(sys.argv[3], encoding="utf-8") as file:
        page = file.read()
    for text in SAME:
        check(text, okv.ask_anew(text), redis.ask_anew(text))
    for text in scripts.all_requests():
        check(text, okv.ask_anew(text), redis.ask_anew(text))
        check("in RESP3 " + text, okv.ask_in_resp3(text), redis.ask_in_resp3(text))
    for text, phrase in DIFFERENT + scripts.DIFFERENT:
        check(text, okv.ask_anew(text), redis.ask_anew(text), False)
        check(f"{phrase} in docs/resp.md", phrase in page, True)
    names = compare_commands(okv, redis, 2)
    compare_commands(okv, redis, 3)
    compare_lists(okv, redis, names)
    compare_arguments(okv, redis, names)
    print(f"like_redis: {checks} checks, {wrong} of them wrong")
    sys.exit(wrong > 0)


main()
