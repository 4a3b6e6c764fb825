package envelope

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"errors"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Namespace is the namespace of SSH signatures, so that a signature of a commit counts for no envelope, nor the other
// way round.
const Namespace = "sluice-bundle"

// Signer signs an encoded manifest.
type Signer interface {
	Sign(manifest []byte) (string, error)
}

// SSHKey signs in a namespace; see gitstore.NewSigner.
type SSHKey interface {
	SignIn(namespace string, message []byte) (string, error)
}

// SSH signs with an SSH key.
func SSH(key SSHKey) Signer { return sshSigner{key} }

type sshSigner struct{ key SSHKey }

func (s sshSigner) Sign(manifest []byte) (string, error) { return s.key.SignIn(Namespace, manifest) }

// Cosign signs with a private key in PEM form, as `cosign generate-key-pair` writes it.
func Cosign(pem, password []byte) (Signer, error) {
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(pem, func(bool) ([]byte, error) { return password, nil })
	if err != nil { // the text of the library may quote the key
		return nil, errors.New("it is not a private key in PEM form, as `cosign generate-key-pair` writes it, or its password is wrong")
	}
	signer, err := signature.LoadSigner(key, crypto.SHA256)
	if err != nil {
		return nil, errors.New("it cannot sign: use a key of cosign")
	}
	return cosignSigner{signer}, nil
}

type cosignSigner struct{ key signature.Signer }

func (s cosignSigner) Sign(manifest []byte) (string, error) {
	made, err := s.key.SignMessage(bytes.NewReader(manifest))
	return base64.StdEncoding.EncodeToString(made), err
}
