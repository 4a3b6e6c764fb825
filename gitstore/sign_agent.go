package gitstore

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/sluice-gitops/sluice/internal/signers"
)

// NewAgentSigner returns a signer whose private key is in an SSH agent. The public key is a line as in
// id_ed25519.pub. It asks the agent at once, and again for each signature, because the agent may be locked or lose
// the key in between.
func NewAgentSigner(socket string, publicKey []byte) (Signer, error) {
	if socket == "" {
		return nil, errors.New("no SSH agent is running: start one with `ssh-agent` and add the key with `ssh-add`, or name the private key")
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(publicKey)
	if err != nil {
		return nil, fmt.Errorf("the signing key is not an SSH public key: %w", err)
	}
	a := agentSigner{socket: socket, key: key}
	return a, a.with(func(ssh.Signer) error { return nil })
}

type agentSigner struct {
	socket string
	key    ssh.PublicKey
}

// Sign asks the agent for a signature.
func (a agentSigner) Sign(commit []byte) (string, error) { return a.SignIn(signers.Namespace, commit) }

// SignIn asks the agent for a signature of a message that is no commit.
func (a agentSigner) SignIn(namespace string, message []byte) (signature string, err error) {
	err = a.with(func(signer ssh.Signer) error {
		signature, err = sshSigner{signer}.SignIn(namespace, message)
		return err
	})
	return signature, err
}

// Verify checks a signature with the public key. It does not ask the agent.
func (a agentSigner) Verify(commit []byte, signature string) error {
	return verifySSH(a.key, commit, signature)
}

// with calls use with the agent's key.
func (a agentSigner) with(use func(ssh.Signer) error) error {
	conn, err := net.Dial("unix", a.socket) //nolint:noctx // a local socket
	if err != nil {
		return fmt.Errorf("the SSH agent does not answer (start it again with `ssh-agent`): %w", err)
	}
	defer func() { _ = conn.Close() }() // the signature has been read
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return fmt.Errorf("ask the SSH agent for its keys: %w", err)
	}
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), a.key.Marshal()) {
			return use(s)
		}
	}
	return fmt.Errorf("the SSH agent does not have the key %s: add it with `ssh-add`", ssh.FingerprintSHA256(a.key))
}
