package cli

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/bundle/envelope"
)

// envelopeKeys are the keys that sign a file which crosses a gap between networks.
type envelopeKeys struct{ files []string }

func (k *envelopeKeys) flag(f *pflag.FlagSet) {
	f.StringArrayVar(&k.files, "sign", nil,
		"sign the file with the SSH or cosign private key in this `file`, or with the SSH agent's key for a .pub file; give it again for a second signature")
}

// signers reads the keys.
func (k *envelopeKeys) signers(o IO) ([]envelope.Signer, error) {
	if len(k.files) == 0 {
		return nil, usagef("--sign is required: the other side imports only what a key that it knows has signed")
	}
	var out []envelope.Signer
	for _, name := range k.files {
		one, err := envelopeKey(o, name)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func envelopeKey(o IO, name string) (envelope.Signer, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	for _, kind := range []string{"SIGSTORE PRIVATE KEY", "COSIGN PRIVATE KEY"} {
		if bytes.Contains(data, []byte("-----BEGIN ENCRYPTED "+kind+"-----")) {
			one, err := envelope.Cosign(data, []byte(o.Env.Getenv("SLUICE_COSIGN_PASSWORD")))
			if err != nil {
				return nil, fmt.Errorf("signing key %s: %w (SLUICE_COSIGN_PASSWORD has the password)", name, err)
			}
			return one, nil
		}
	}
	key, err := o.Env.Signer(name)
	if err != nil {
		return nil, err
	}
	ssh, ok := key.(envelope.SSHKey)
	if !ok {
		return nil, fmt.Errorf("signing key %s: OpenPGP keys do not sign this: use an SSH key or one of cosign", name)
	}
	return envelope.SSH(ssh), nil
}

// envelopeTrust names the file of keys whose signatures count.
type envelopeTrust struct{ file string }

func (t *envelopeTrust) flag(f *pflag.FlagSet) {
	f.StringVar(&t.file, "signers", "", "`file` of the keys whose signatures count, and of how many are needed")
}

// read reads the file; nil without one.
func (t *envelopeTrust) read() (*envelope.Trust, error) {
	if t.file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(t.file)
	if err != nil {
		return nil, err
	}
	trust, err := envelope.ParseTrust(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.file, err)
	}
	return trust, nil
}

// required reads the file, and refuses to go on without one.
func (t *envelopeTrust) required() (*envelope.Trust, error) {
	trust, err := t.read()
	if err == nil && trust == nil {
		err = usagef("--signers is required: the file of the keys whose signatures count (see docs/receipts.md)")
	}
	return trust, err
}
