<?php
// php_session.php PORT USER PASSWORD: sessions, each with a lock that a script releases. Four processes count at once.
[, $port, $user, $password] = $argv;
ini_set('session.save_handler', 'redis');
ini_set('session.save_path', "tcp://127.0.0.1:$port?auth[user]=$user&auth[pass]=" . urlencode($password));
ini_set('redis.session.locking_enabled', '1');
ini_set('redis.session.lock_retries', '-1');
ini_set('redis.session.lock_wait_time', '1000');
ini_set('session.use_cookies', '0');

function count_in_session(int $times): int
{
    for ($i = 0; $i < $times; $i++) {
        session_id('counted');
        session_start();
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        $count = $_SESSION['n'];
        session_write_close();
    }
    return $count;
}

if (isset($argv[4])) {
    count_in_session(25);
    exit(0);
}
$children = [];
for ($i = 0; $i < 4; $i++)
    $children[] = proc_open([PHP_BINARY, __FILE__, $port, $user, $password, 'child'], [], $pipes);
foreach ($children as $child)
    if (proc_close($child) !== 0)
        exit(1);
if (count_in_session(1) !== 101) {
    fwrite(STDERR, "some of the counts are lost\n");
    exit(1);
}
$db = new Redis();
$db->connect('127.0.0.1', (int)$port);
$db->auth([$user, $password]);
$sha = $db->script('load', "return redis.call('incrby', KEYS[1], ARGV[1])");
if ($db->evalSha($sha, ['php:n', 5], 1) !== 5 || $db->eval('return ARGV[1]', ['x'], 0) !== 'x')
    exit(2);
