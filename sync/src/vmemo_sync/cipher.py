"""Encryption of the files of a shared folder, with the package `cryptography`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from hashlib import scrypt
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from vmemo.errors import InvalidInput

ENCRYPTED = b"vmemo-sync 1 encrypted\n"
SALT, NONCE, KEY = 16, 12, 32
"""Bytes of the salt of a machine, of the number that is used once with its key, and of that key."""


@dataclass(frozen=True)
class Cipher:
    """Keys of AES-256-GCM, each derived from the secret with the salt of one machine."""

    secret: bytes = field(repr=False)
    keys: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes], repr=False)

    def encrypt(self, content: bytes, *, salt: bytes) -> bytes:
        nonce = os.urandom(NONCE)
        return ENCRYPTED + salt + nonce + self._aes(salt).encrypt(nonce, content, ENCRYPTED + salt)

    def decrypt(self, content: bytes, path: Path) -> bytes:
        """Return what a whole file holds; raise InvalidInput if another key encrypted it."""
        body = content.removeprefix(ENCRYPTED)
        salt, nonce, sealed = body[:SALT], body[SALT : SALT + NONCE], body[SALT + NONCE :]
        try:
            return self._aes(salt).decrypt(nonce, sealed, ENCRYPTED + salt)
        except InvalidTag as error:
            raise InvalidInput(
                f"{path} was encrypted with another key. Nothing was changed. Pass the key of this folder with "
                "--key-file, VMEMO_ENCRYPTION_KEY_FILE or VMEMO_ENCRYPTION_KEY."
            ) from error

    def _aes(self, salt: bytes) -> AESGCM:
        if salt not in self.keys:
            self.keys[salt] = scrypt(self.secret, salt=salt, n=2**15, r=8, p=1, maxmem=2**26, dklen=KEY)
        return AESGCM(self.keys[salt])
