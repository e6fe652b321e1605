"""Signs jobs with the user's credential, as `hawk submit` does: docs/protocol-access.md, section 18. It needs the
package cryptography; without it, or without a credential, jobs travel unsigned, which a cluster may refuse."""
import hashlib
import os
import struct
import time

from hawk import hawk_pb2 as pb

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError:
    x509 = None

LIFE_S = 7 * 24 * 3600
NO_UID = 0xffffffff
HEAD, NAMED = b"hawk signed 1\n", ">I16sq"  # a submission's beginning; the user's id, the nonce and the end of its time
USER, UID = ".user.hawk", "hawk:uid:"
BEGIN, END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


def leaf(data):
    return hashlib.sha256(b"\0" + data).digest()


def tree_levels(leaves):
    """Of the hash tree (RFC 6962) over these, at least one; the root is the only node of the last level."""
    levels = [leaves]
    while len(level := levels[-1]) > 1:
        pairs = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2])]
        levels.append(pairs + level[len(pairs) * 2:])
    return levels


def proof(levels, index):
    """What leads from this leaf to the root."""
    return b"".join(level[index >> up ^ 1] for up, level in enumerate(levels) if index >> up ^ 1 < len(level))


def certificates(pem):
    """All of a file."""
    return [x509.load_pem_x509_certificate(BEGIN + part.split(END)[0] + END) for part in pem.split(BEGIN)[1:]]


def signed_by(certificate, root):
    if root.subject != certificate.issuer:
        return False
    try:
        root.public_key().verify(certificate.signature, certificate.tbs_certificate_bytes,
                                 ec.ECDSA(certificate.signature_hash_algorithm))
        return True
    except (InvalidSignature, TypeError):
        return False


def with_length(text):
    return struct.pack("B", len(text)) + text.encode()


class Signer:
    """What a user signs with: his credential's files, as bytes."""

    def __init__(self, roots, key, certificate):
        self.certificate = certificates(certificate)[0]
        self.key = serialization.load_pem_private_key(key, None)
        names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        self.user = next((n[:-len(USER)] for n in names.get_values_for_type(x509.DNSName) if n.endswith(USER)), None)
        uids = [n[len(UID):] for n in names.get_values_for_type(x509.UniformResourceIdentifier) if n.startswith(UID)]
        self.uid = int(uids[0]) if uids else NO_UID
        root = next((r for r in certificates(roots) if signed_by(self.certificate, r)), None)
        key_info = root and root.public_key().public_bytes(serialization.Encoding.DER,
                                                           serialization.PublicFormat.SubjectPublicKeyInfo)
        self.cluster = root and hashlib.sha256(key_info).hexdigest()

    def sign(self, specs):
        """Sets the signature of each of these whole JobSpecs, at least one, with one signature for all."""
        for spec, signature in zip(specs, self._seal([self._submission(spec) for spec in specs])):
            spec.signature = signature

    def renew(self, signature):
        """That of a job which is to run again: of the same submission, with another nonce."""
        old = pb.Signed.FromString(signature).submission
        at = len(HEAD)
        for _ in ("cluster", "user"):
            at += 1 + old[at]
        return self._seal([self._head() + old[at + struct.calcsize(NAMED):]])[0]

    def _seal(self, submissions):
        """Their messages Signed, with one signature for all."""
        levels = tree_levels([leaf(submission) for submission in submissions])
        batch = b"hawk batch 1\n" + struct.pack(">I", len(submissions)) + levels[-1][0]
        signature = self.key.sign(batch, ec.ECDSA(hashes.SHA256()))
        credential = self.certificate.public_bytes(serialization.Encoding.DER)
        return [pb.Signed(submission=submission, credential=credential, signature=signature, index=i,
                          leaves=len(submissions), hashes=proof(levels, i)).SerializeToString()
                for i, submission in enumerate(submissions)]

    def _head(self):
        return HEAD + with_length(self.cluster) + with_length(self.user) + \
            struct.pack(NAMED, self.uid, os.urandom(16), int(time.time()) + LIFE_S)

    def _submission(self, spec):
        args = list(spec.task_args)
        bare = pb.JobSpec()
        bare.CopyFrom(spec)
        for field in ("task_args", "user", "signature"):
            bare.ClearField(field)
        text = bare.SerializeToString()
        root = tree_levels([leaf(a) for a in args])[-1][0] if args else bytes(32)
        return self._head() + struct.pack(">I", spec.tasks) + root + struct.pack(">I", len(text)) + text


def signer(roots, key, certificate):
    """A Signer, or None: the credential is no user's, or this Python cannot sign."""
    if not x509:
        return None
    made = Signer(roots, key, certificate)
    return made if made.user and made.cluster and isinstance(made.key, ec.EllipticCurvePrivateKey) else None
