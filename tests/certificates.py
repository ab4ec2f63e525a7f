"""A certificate authority for tests, and services that present its certificates."""

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority; clients trust the certificate in `file`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        certificate = self._made(self.name, self.key, x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def serving(self, *names: str, days: int = 1) -> ssl.SSLContext:
        """Return the context of a server with a certificate for these names.

        With `days` below 0 the certificate has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._made(
            x509.Name([]),
            key,
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]),
            days=days,
        )
        file = self.folder / f"{'-'.join(names)}-{days}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _made(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *extensions: x509.ExtensionType,
        days: int = 1,
    ):
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder(
                self.name, subject, key.public_key(), x509.random_serial_number()
            )
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now + days * DAY)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=True)
        return builder.sign(self.key, hashes.SHA256())
