"""beside_redis.py SOCKET SOCKET SEED: okv and Redis 7.0 at two Unix sockets get the same commands of bits, chosen at
random, and give the same replies. INFO of okv has no line that Redis does not have, and each has the form of Redis'."""
import random
import re
import socket
import sys

ROUNDS = 3000
LONG = 200000  # bytes: okv reads and makes such values in steps
KEYS = ["a", "b", "c", "long", "none"]
# Lines of INFO whose text is of another kind than Redis'.
OWN_TEXT = {"used_memory_human", "used_memory_rss_human", "used_memory_peak_human", "total_system_memory_human",
            "maxmemory_human", "maxmemory"}


class Server:
    def __init__(self, address):
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(address)
        self.connection.settimeout(60)
        self.replies = self.connection.makefile("rb")

    def ask(self, *words):
        """The bytes of the reply."""
        request = b"*%d\r\n" % len(words)
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            request += b"$%d\r\n%s\r\n" % (len(word), word)
        self.connection.sendall(request)
        return self.read()

    def read(self):
        line = self.replies.readline()
        count = int(line[1:]) if line[:1] in b"$*" else 0
        if line[:1] == b"$" and count >= 0:
            return line + self.replies.read(count + 2)
        return line + b"".join(self.read() for _ in range(count if line[:1] == b"*" else 0))

    def text(self, *words):
        return self.ask(*words).split(b"\r\n", 1)[1].decode()


wrong = checks = 0


def check(what, okv, redis):
    global wrong, checks
    checks += 1
    if okv != redis:
        wrong += 1
        print(f"WRONG {what!r:.300}:\n  okv    {str(okv):.500}\n  Redis  {str(redis):.500}")


def value(choose):
    """Mostly without or with all bits, so that there is something to search for."""
    length = choose.choice([0, 1, 2, 7, 8, 9, 40, 300])
    fill = choose.choice([b"\0", b"\xff", None])
    return bytes(choose.randrange(256) for _ in range(length)) if fill is None else fill * length


def place(choose, length):
    """A place in a value, or around it; rarely none."""
    if choose.random() < 0.02:
        return choose.choice(["x", "", "1.5", "+1", "01", "9223372036854775808"])
    if choose.random() < 0.03:
        return choose.choice([2**63 - 1, -2**63, 2**32])
    return choose.randint(-length - 3, length + 3)


def operation(choose, bits):
    """Arguments of BITFIELD, below a bit offset."""
    if choose.random() < 0.2:
        return ["OVERFLOW", choose.choice(["WRAP", "SAT", "FAIL", "fail", "x"][:5 if choose.random() < 0.1 else 4])]
    kind = choose.choice("ui")
    width = choose.randint(1, 63) if choose.random() < 0.95 else choose.choice([0, 64, 65, "x", ""])
    offset = choose.randint(0, bits) if choose.random() < 0.95 else choose.choice([-1, "#-1", "#3", "x", "#", 2**32])
    if choose.random() < 0.2:
        offset = f"#{choose.randint(0, 9)}"
    number = choose.choice([0, 1, -1, 5, -7, choose.randint(-2**63, 2**63 - 1)])
    if choose.random() < 0.02:
        number = "x"
    return {0: ["GET", kind + str(width), offset], 1: ["SET", kind + str(width), offset, number],
            2: ["incrby", kind + str(width), offset, number]}[choose.randrange(3)]


def command(choose):
    key = choose.choice(KEYS)
    length = LONG if key == "long" else 40
    bits = choose.choice([400, 8 * LONG + 400, 10 * LONG]) if key == "long" else 400 # within it, and behind its end
    which = choose.randrange(6)
    unit = choose.choice([[], ["BIT"], ["byte"], ["bits"]] if choose.random() < 0.2 else [[], ["BIT"], ["BYTE"]])
    ends = [place(choose, length * (8 if unit == ["BIT"] else 1)) for _ in range(2)]
    if which == 0:
        return ["BITCOUNT", key] + choose.choice([[], ends + unit, ends[:1], ends + unit + ["x"]])
    if which == 1:
        bit = choose.choice([0, 1]) if choose.random() < 0.97 else choose.choice([2, -1, "x"])
        return ["BITPOS", key, bit] + choose.choice([[], ends[:1], ends, ends + unit, ends + unit + ["x"]])
    if which == 2:
        name = choose.choice(["AND", "OR", "XOR", "not", "NAND"])
        sources = [choose.choice(KEYS) for _ in range(1 if name == "not" and choose.random() < 0.9 else
                                                      choose.randint(1, 5))]
        return ["BITOP", name, choose.choice(KEYS[:4])] + sources
    if which == 3:
        operations = [word for _ in range(choose.randint(0, 6)) for word in operation(choose, bits)]
        return [choose.choice(["BITFIELD", "BITFIELD", "BITFIELD_RO"]), key] + operations
    if which == 4:
        return ["SETBIT", "a" if key == "none" else key, choose.randint(0, bits), choose.choice([0, 1])]
    return ["SET", choose.choice(KEYS[:3]), value(choose)]


def compare_bits(okv, redis, seed):
    choose = random.Random(seed)
    fill = bytes(choose.randrange(256) for _ in range(LONG))
    for turn in range(ROUNDS):
        if turn % 50 == 0:
            fill = choose.choice([fill, b"\0" * LONG, b"\xff" * LONG])
            check("SET long", okv.ask("SET", "long", fill), redis.ask("SET", "long", fill))
            check("DEL none", okv.ask("DEL", "none"), redis.ask("DEL", "none"))
        words = command(choose)
        check(words, okv.ask(*words), redis.ask(*words))
        if turn % 10 == 0:
            for key in KEYS:
                check(f"GET {key} after {words}", okv.ask("GET", key), redis.ask("GET", key))
    for words in (["MULTI"], ["BITOP", "NOT", "a", "long"], ["BITFIELD", "a", "SET", "u8", "0", "1"],
                  ["BITCOUNT", "a"], ["BITPOS", "a", "1", "9"], ["EXEC"], ["GET", "a"]):
        check(words, okv.ask(*words), redis.ask(*words))


def lines_of(text):
    """{section: {name: value}} of INFO."""
    sections = {}
    for line in text.split("\r\n"):
        if line.startswith("# "):
            section = sections.setdefault(line[2:], {})
        elif ":" in line:
            name, figure = line.split(":", 1)
            section[name] = figure
    return sections


def form(figure):
    """What kind of text it is; numbers within it count as one digit."""
    return re.sub(r"\d+", "0", figure).replace("-0", "0")


def compare_info(okv, redis):
    for server in (okv, redis):
        for words in (["GET", "a"], ["GET"], ["HELLO", "9"], ["CLIENT", "ID"]):
            server.ask(*words)
    own, other = lines_of(okv.text("INFO", "everything")), lines_of(redis.text("INFO", "everything"))
    for section, lines in own.items():
        for name, figure in lines.items():
            if name.startswith("okv_"):
                continue
            there = other.get(section, {})
            check(f"INFO has {name} in {section}", name in there, True)
            if name in there and name not in OWN_TEXT and not name.startswith("redis_") and name not in ("os", "run_id"):
                check(f"the form of {name}", form(figure), form(there[name]))
    check("sections without words", list(lines_of(okv.text("INFO"))),
          [name for name in lines_of(redis.text("INFO")) if name in own])
    check("redis_version", own["Server"]["redis_version"].rsplit(".", 1)[0], "7.0")


def compare_commands(okv, redis):
    """Each command of Redis is one of okv, or its error says what okv lacks."""
    names = re.findall(r"^([a-z_-]+)\r$", redis.text("COMMAND", "LIST").replace("\n", "\n"), re.MULTILINE)
    assert len(names) > 200
    for name in names:
        if okv.ask("COMMAND", "INFO", name) in (b"*1\r\n*-1\r\n", b"*1\r\n$-1\r\n"):
            error = okv.ask(name)
            check(f"{name}: {error}", b"(okv has no " in error, True)


def main():
    okv, redis = Server(sys.argv[1]), Server(sys.argv[2])
    compare_bits(okv, redis, int(sys.argv[3]))
    for line in ("ACL WHOAMI", "ACL WHOAMI x", "WAIT 0 0", "WAIT x 0", "WAIT 0 -1", "WAIT 0 x", "SAVE x", "BGSAVE x",
                 "SAVE", "LASTSAVE x", "SHUTDOWN ABORT", "SHUTDOWN x", "SHUTDOWN SAVE NOSAVE", "SHUTDOWN ABORT NOW",
                 "CONFIG SET timeout x", "CONFIG SET timeout 5 timeout 6", "CONFIG SET nosuch 1", "CONFIG SET a 1 b",
                 "CONFIG SET timeout 5", "CONFIG GET timeout", "CONFIG SET timeout 0", "CONFIG GET timeout"):
        check(line, okv.ask(*line.split()), redis.ask(*line.split()))
    compare_info(okv, redis)
    compare_commands(okv, redis)
    print(f"beside_redis: seed {sys.argv[3]}, {checks} checks, {wrong} of them wrong")
    sys.exit(wrong > 0)


main()
