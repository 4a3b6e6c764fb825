package gitstore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/sluice-gitops/sluice/internal/signers"
)

// NewSigner returns a signer for a private key: an armoured OpenPGP key, or an SSH key in OpenSSH or PEM format. The
// passphrase is "" for a key without one.
func NewSigner(key []byte, passphrase string) (Signer, error) {
	if bytes.Contains(key, []byte("BEGIN PGP PRIVATE KEY")) {
		return newOpenPGP(key, passphrase)
	}
	var signer ssh.Signer
	var err error
	if passphrase == "" {
		signer, err = ssh.ParsePrivateKey(key)
	} else {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(key, []byte(passphrase))
	}
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, errors.New("the signing key has a passphrase: set SLUICE_SIGNING_PASSPHRASE")
	}
	if err != nil {
		return nil, fmt.Errorf("the signing key is neither an OpenPGP nor an SSH private key: %w", err)
	}
	return sshSigner{signer}, nil
}

type sshSigner struct{ signer ssh.Signer }

// Sign signs in Git's namespace.
func (s sshSigner) Sign(commit []byte) (string, error) { return s.SignIn(signers.Namespace, commit) }

// SignIn signs a message that is no commit, in a namespace of its own, as `ssh-keygen -Y sign -n NAMESPACE` does.
func (s sshSigner) SignIn(namespace string, message []byte) (string, error) {
	signature, err := sshsig.Sign(bytes.NewReader(message), s.signer, sshsig.HashSHA512, namespace)
	if err != nil {
		return "", err
	}
	return string(sshsig.Armor(signature)), nil
}

// Verify checks a signature with the signer's key.
func (s sshSigner) Verify(commit []byte, signature string) error {
	return verifySSH(s.signer.PublicKey(), commit, signature)
}

func verifySSH(key ssh.PublicKey, commit []byte, signature string) error {
	parsed, err := sshsig.Unarmor([]byte(signature))
	if err != nil {
		return err
	}
	return sshsig.Verify(bytes.NewReader(commit), parsed, key, parsed.HashAlgorithm, signers.Namespace)
}

type pgpSigner struct{ entity *openpgp.Entity }

func newOpenPGP(key []byte, passphrase string) (Signer, error) {
	ring, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(key))
	if err != nil || len(ring) == 0 || ring[0].PrivateKey == nil {
		return nil, fmt.Errorf("the OpenPGP signing key cannot be read: %w", errors.Join(err))
	}
	if ring[0].PrivateKey.Encrypted {
		if passphrase == "" {
			return nil, errors.New("the signing key has a passphrase: set SLUICE_SIGNING_PASSPHRASE")
		}
		if err := ring[0].DecryptPrivateKeys([]byte(passphrase)); err != nil {
			return nil, fmt.Errorf("the passphrase of the signing key is wrong: %w", err)
		}
	}
	return pgpSigner{ring[0]}, nil
}

// Sign returns a detached armoured signature.
func (s pgpSigner) Sign(commit []byte) (string, error) {
	var out strings.Builder
	if err := openpgp.ArmoredDetachSign(&out, s.entity, bytes.NewReader(commit), &packet.Config{}); err != nil {
		return "", err
	}
	return out.String() + "\n", nil
}

// Verify checks a signature with the signer's key.
func (s pgpSigner) Verify(commit []byte, signature string) error {
	_, err := openpgp.CheckArmoredDetachedSignature(openpgp.EntityList{s.entity}, bytes.NewReader(commit),
		strings.NewReader(signature), &packet.Config{})
	return err
}
