/* Of builds without OpenSSL: nobody calls but for attack_has_tls(). */
#include "tests/chaos/attack.h"

bool attack_has_tls(void)
{
    return false;
}

void attack_write_certificate(const char *cert_path, const char *key_path)
{
    (void)cert_path, (void)key_path;
}

void attack_tls_handshakes(struct attacker *attacker)
{
    (void)attacker;
}

void attack_tls_updates(struct attacker *attacker)
{
    (void)attacker;
}
