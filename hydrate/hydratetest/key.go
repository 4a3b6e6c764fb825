package hydratetest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/sluice-gitops/sluice/gitstore"
)

// NewKey returns a new signer, with its line for spec.signers.
func NewKey(t testing.TB) (gitstore.Signer, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := gitstore.NewSigner(pem.EncodeToMemory(block), "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return signer, "sluice@example.com " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// SetSigners sets spec.signers of the fleet in the working tree.
func (r *Repo) SetSigners(lines ...string) {
	r.T.Helper()
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "\nspec:\n", "\nspec:\n  signers: [\""+
		strings.Join(lines, `", "`)+"\"]\n", 1))
}

// Forge commits to a branch without a signature, with the message, author and committer of its tip and the tree of a
// revision, like an attacker who imitates Sluice.
func (r *Repo) Forge(branch, tree string) string {
	r.T.Helper()
	forged := r.Git("commit-tree", "-p", branch, "-m", r.Git("log", "-1", "--format=%B", branch), tree+"^{tree}")
	r.Git("update-ref", "refs/heads/"+branch, forged)
	return forged
}
