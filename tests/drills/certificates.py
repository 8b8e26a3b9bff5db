"""An authority of our own, and certificates from it: one for localhost, one for another name."""

import ssl
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority(NamedTuple):
    """`ca`: its certificate's file. `server`, `other`: contexts of servers."""

    ca: str
    server: ssl.SSLContext
    other: ssl.SSLContext


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject, issuer, key, signer, *extensions):
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(_name(issuer))
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))
    for extension in extensions:
        made = made.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints | x509.KeyUsage))
    return made.sign(signer, hashes.SHA256())


def make(folder):
    authority = ec.generate_private_key(ec.SECP256R1())
    signs = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    identity = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    basic = x509.BasicConstraints(ca=True, path_length=0)
    ca = _certificate("endmark tests", "endmark tests", authority, authority, basic, signs, identity)
    ca_file = folder / "ca.pem"
    ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))

    def server(name):
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        knows = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        made = _certificate(name, "endmark tests", key, authority, names, knows, own)
        file = folder / f"{name}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    return Authority(str(ca_file), server("localhost"), server("elsewhere.example"))
