package artifacts_test

import (
	"context"
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigstore "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"

	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/hydrate/session"
)

// program is the name under which the test binary is the program of a KMS whose keys are files.
const program = "sigstore-kms-files"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != program {
		os.Exit(m.Run())
	}
	if err := answer(); err != nil {
		if err := handler.WriteErrorResponse(os.Stdout, err); err != nil {
			os.Exit(1)
		}
	}
}

// fileKey is a key in a file.
type fileKey struct{ sigstore.SignerVerifier }

func (fileKey) CreateKey(context.Context, string) (crypto.PublicKey, error) {
	return nil, os.ErrPermission
}

func (fileKey) CryptoSigner(context.Context, func(error)) (crypto.Signer, crypto.SignerOpts, error) {
	return nil, nil, os.ErrPermission
}

func (fileKey) SupportedAlgorithms() []string { return []string{"ecdsa"} }

func (fileKey) DefaultAlgorithm() string { return "ecdsa" }

func answer() error {
	call, err := handler.GetPluginArgs(os.Args)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(call.InitOptions.KeyResourceID)
	if err != nil {
		return err
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(text, cryptoutils.StaticPasswordFunc([]byte(password)))
	if err != nil {
		return err
	}
	both, err := sigstore.LoadSignerVerifier(key, call.InitOptions.HashFunc)
	if err != nil {
		return err
	}
	_, err = handler.Dispatch(os.Stdout, os.Stdin, call, fileKey{both})
	return err
}

// A key of a KMS signs through its program.
func TestSignaturesOfAService(t *testing.T) { //nolint:paralleltest // it sets PATH
	endToEnd(t)
	p := newPlace(t)
	own := p.newKey("keys/cosign.pub")
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(folder, program)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	file := filepath.Join(folder, "key")
	if err := os.WriteFile(file, own.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nothing://key": "the program sigstore-kms-nothing is not in PATH", "files://" + file + "x": "no such file",
	} {
		p.private = session.ArtifactKey{KMS: name, Name: "SLUICE_COSIGN_KEY"}
		if r := p.publish(artifacts.Options{}); r.OK() || !strings.Contains(r.Unfinished, want) {
			t.Errorf("%s: %+v, want %s", name, r, want)
		}
	}
	p.private = session.ArtifactKey{KMS: "files://" + file, Name: "SLUICE_COSIGN_KEY"}
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
	if v := p.verify(); v.Status != artifacts.VerifyOK {
		t.Errorf("verified: %+v", v)
	}
	p.newKey("keys/cosign.pub") // another public key on the trunk
	if r := p.publish(artifacts.Options{}); !strings.Contains(r.Unfinished, "does not belong to the public key") {
		t.Errorf("with another public key: %s", fmt.Sprint(r))
	}
}
