"""Redaction of secrets: what is replaced, and what looks alike and stays."""

from __future__ import annotations

import pytest

from vmemo.text.redact import redact_secrets

WORD = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD"
"""Letters and digits of a made-up key."""
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{WORD}"
PEM_BODY = "\n".join([WORD + WORD] * 3)

SECRETS = [
    # API keys with the prefix of a provider.
    (f"sk-{WORD}", "api key"),
    (f"sk-proj-{WORD}_{WORD}-x", "api key"),
    (f"sk-ant-api03-{WORD}-{WORD}", "api key"),
    ("sk-or-v1-0123456789abcdef0123456789abcdef", "api key"),
    (f"sk_live_{WORD}", "api key"),
    (f"rk_test_{WORD}", "api key"),
    (f"ghp_{WORD}abcd", "api key"),
    (f"gho_{WORD}abcd", "api key"),
    (f"github_pat_{WORD}_{WORD}", "api key"),
    (f"glpat-{WORD}", "api key"),
    ("AKIAIOSFODNN7EXAMPLE", "api key"),
    ("ASIAIOSFODNN7EXAMPLE", "api key"),
    (f"AIza{WORD}abc", "api key"),
    (f"ya29.{WORD}", "api key"),
    ("xoxb-123456789012-abcdefGHIJKL", "api key"),
    ("xoxp-123456789012-123456789012-abcdef", "api key"),
    ("xapp-1-A0123456789-123456789012-abcdef", "api key"),
    (f"hf_{WORD}", "api key"),
    (f"npm_{WORD}abcd", "api key"),
    (f"pypi-{WORD}{WORD}", "api key"),
    (f"SG.{WORD[:22]}.{WORD}", "api key"),
    (f"dop_v1_{'0123456789abcdef' * 4}", "api key"),
    (f"whsec_{WORD}", "api key"),
    (f"gsk_{WORD}", "api key"),
    (f"vmemo_{WORD}_{WORD[:10]}", "api key"),
    # Tokens.
    (JWT, "token"),
    # Private keys, also with escaped line breaks and without an end.
    (f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----", "private key"),
    (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM_BODY}\n-----END OPENSSH PRIVATE KEY-----", "private key"),
    (f"-----BEGIN PRIVATE KEY-----\\n{WORD}{WORD}\\n-----END PRIVATE KEY-----", "private key"),
    (f"-----BEGIN EC PRIVATE KEY-----\n{PEM_BODY}", "private key"),
    (
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{PEM_BODY}",
        "private key",
    ),
    (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\\nVersion: 2\\n\\n{WORD}\\nab3d==", "private key"),
    # Card numbers.
    ("4111\u00a01111\u00a01111\u00a01111", "card number"),
    ("4111\u202f1111\u202f1111\u202f1111", "card number"),
    ("5555.5555.5555.4444", "card number"),
    ("5555\u20115555\u20115555\u20114444", "card number"),
    ("4111 1111 1111 1111", "card number"),
    ("5555-5555-5555-4444", "card number"),
    ("378282246310005", "card number"),
    ("3782 822463 10005", "card number"),
    ("6011000990139424", "card number"),
    ("2223003122003222", "card number"),
    ("3530111333300000", "card number"),
]
IN_CONTEXT = [
    ("my password is hunter2", "my password is [redacted: password]"),
    ("Password: Tr0ub4dor&3!", "Password: [redacted: password]"),
    (f"password: {'aB3$' * 1000}", "password: [redacted: password]"),
    (f"my password is {'aB3$' * 50}!", "my password is [redacted: password]"),
    ("my password was Tr0ub4dor&3", "my password was [redacted: password]"),
    ("my password's hunter2", "my password's [redacted: password]"),
    ("**Password:** hunter2", "**Password:** [redacted: password]"),
    ("password -> hunter2", "password -> [redacted: password]"),
    ("password: a$3(x)9,z", "password: [redacted: password]"),
    ("(password: hunter2)", "(password: [redacted: password])"),
    ("user=ana;password=hunter2;port=5432", "user=ana;password=[redacted: password];port=5432"),
    (f"postgres://ana:{'aB3' * 100}@db/app", "postgres://ana:[redacted: password]@db/app"),
    ("postgres://ana:12345@db/app", "postgres://ana:[redacted: password]@db/app"),
    (f"api key: {WORD * 40}", "api key: [redacted: api key]"),
    ("pwd=s3cr3tVal", "pwd=[redacted: password]"),
    ('{"password": "correct9horse"}', '{"password": "[redacted: password]"}'),
    ("DB_PASSWORD=Zq7#kkp2", "DB_PASSWORD=[redacted: password]"),
    ("The password for the guest wifi is blue42whale.", "The password for the guest wifi is [redacted: password]."),
    ("My password is 48151623.", "My password is [redacted: password]."),
    ("the door's passcode is 4711", "the door's passcode is [redacted: password]"),
    ("I changed my password to Tr0ub4dor&3 today", "I changed my password to [redacted: password] today"),
    ("postgresql://ana:s3cret@db.local:5432/app", "postgresql://ana:[redacted: password]@db.local:5432/app"),
    ("redis://:hunter@cache:6379/0", "redis://:[redacted: password]@cache:6379/0"),
    (f"Authorization: Bearer {WORD}", "Authorization: Bearer [redacted: token]"),
    ("Authorization: Basic YW5hOnNlY3JldA==", "Authorization: Basic [redacted: token]"),
    (f"OPENAI_API_KEY={WORD}", "OPENAI_API_KEY=[redacted: api key]"),
    (f"the api key is {WORD}.", "the api key is [redacted: api key]."),
    (f'"client_secret": "{WORD}"', '"client_secret": "[redacted: api key]"'),
    (f"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/{WORD}", "aws_secret_access_key = [redacted: api key]"),
    (f"refresh token: {WORD}", "refresh token: [redacted: api key]"),
]
LOOK_ALIKES = [
    # Hashes, ids and other codes.
    "commit 3f786850e387550fdab836ed7e6dc881de23001b fixes it",
    "git checkout 9fceb02",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "d41d8cd98f00b204e9800998ecf8427e  empty.txt",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "0199f0c1-d3e2-7abc-8def-0123456789ab",
    "why 3f2a9c1b",
    "[3f2a9c1b] and [0199f0c1-d3e2-7abc-8def-0123456789ab]",
    "order 4111111111111112",
    "tracking number 1Z999AA10123456784",
    "IBAN DE89 3704 0044 0532 0130 00",
    "the phone is +49 170 1234 5678 9012",
    "ISBN 978-3-16-148410-0",
    "IMEI 490154203237518",
    "at 1700000000000 ms and 20240131093000123",
    "snowflake 175928847299117063",
    "version 4.1.1.1-2024-01-31",
    "4111-1111-1111-1111-1111",
    "0x4111111111111111",
    "1234 5678 9012 3456",
    "model gpt-5-mini-2026-01-31-preview",
    "s3://bucket/path/aB3dE6gH9jK2mN5pQ8sT",
    "https://example.com/a:b@c",
    "https://example.com/users/@ana:matrix.org",
    "mailto:ana@example.com",
    "http://localhost:8000/docs",
    "git@github.com:ana/repo.git",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA",
    # Names that begin like a key.
    "task-management-for-distributed-teams",
    "the risk-adjusted-return-of-2024",
    "sk-learn",
    "sk-estimators-and-pipelines-explained",
    "desk-01234567890123456789",
    "hf_hub_download(repo_id)",
    "npm_config_registry",
    "ghp_ is the prefix of a token",
    "AKIA is how access keys begin",
    "xoxo-hugs-and-kisses",
    "asia-northeast1",
    "sg.example.com",
    "vmemo_models",
    "vmemo_conformance.banks",
    "pypi-publish",
    # Talk about passwords, keys and tokens.
    "I forgot my password.",
    "My password is wrong!",
    "My password is incorrect?!",
    "The password's expired!!",
    "The password was changed!",
    "password is **required**",
    "password: mandatory*",
    "The password is case-sensitive!",
    "the password is 12-characters-long",
    "pwd: /home/ana/projects2024",
    "pwd: ~/projects2024",
    "pwd=C:\\Users\\ana2024",
    "Reset your password: https://example.com/reset?id=12",
    "**1Password**: 1Password is a manager",
    "The access token is refreshed-every-30-minutes",
    "The api key is documented-in-section-4.2.1abc",
    "See http://host:8080@mirror/",
    "the password is required",
    "Password: required",
    "password is at least 12 characters long",
    "password: 8 characters",
    "my password manager is 1Password",
    "the password is in KeePass2",
    "the password is the name of my cat",
    "password = get_password2()",
    "password = os.environ['DB_PASSWORD']",
    "password=config.password2",
    "password: ${DB_PASSWORD}",
    "password: <your password>",
    "password: ********",
    "password is 2024's most common weakness",
    "we moved the password to OAuth2.0 logins",
    "I changed my password to something longer",
    "passphrase: none",
    "the passcode is on the fridge",
    "postgresql://user:password@localhost/db",
    "postgresql://user:${PASSWORD}@localhost/db",
    "postgresql://user@localhost/db",
    "the api key is in the vault",
    "api_key = settings.openai_api_key",
    "API key: YOUR_API_KEY_GOES_HERE",
    "the secret key is kindness-and-patience",
    "an access token expires after 3600 seconds",
    "max_tokens=4096, api_key_header=x",
    "the key is under the mat",
    "Bearer tokens are sent with every request",
    "a bearer of bad-news-and-good-news",
    "the file starts with -----BEGIN RSA PRIVATE KEY----- and so on",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
    "eyJ is the beginning of a JWT",
    "[redacted: api key]",
    "my password is [redacted: password]",
]


@pytest.mark.parametrize(("secret", "type"), SECRETS)
def test_a_secret_is_replaced_by_its_type(secret: str, type: str) -> None:
    assert redact_secrets(secret) == f"[redacted: {type}]"
    assert redact_secrets(f"Use {secret}, please.") == f"Use [redacted: {type}], please."


@pytest.mark.parametrize(("text", "redacted"), IN_CONTEXT)
def test_a_value_that_its_words_name_is_replaced(text: str, redacted: str) -> None:
    assert redact_secrets(text) == redacted
    assert redact_secrets(redacted) == redacted


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact_secrets(text) == text


def test_all_secrets_of_a_text_are_replaced() -> None:
    text = f"Keys: sk-{WORD} and ghp_{WORD}abcd.\nMy password is hunter2, my card 4111 1111 1111 1111."
    assert redact_secrets(text) == (
        "Keys: [redacted: api key] and [redacted: api key].\n"
        "My password is [redacted: password], my card [redacted: card number]."
    )
