package promotion_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// newKey is a signer, with its line for spec.signers.
func newKey(t *testing.T) (gitstore.Signer, string) {
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

// TestRecordsMustBeSigned: where the fleet names signers, nothing is promoted by a record that none of them signed, and none is
// written that the next pass would refuse.
func TestRecordsMustBeSigned(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	signer, line := newKey(t)
	other, _ := newKey(t)
	text := s.git("show", "HEAD:sluice.yaml")
	s.write("sluice.yaml", strings.Replace(text, "\nspec:\n", "\nspec:\n  signers: ["+`"`+line+`"`+"]\n", 1)+"\n")
	s.commit("signers")
	commit := s.release("one")
	look := func(with gitstore.Signer) error {
		config := s.hydrator().Config
		config.Signer = with
		h := hydrate.New(config)
		for range 4 {
			if _, err := promotion.Look(t.Context(), h, promotion.Request{Trunk: s.resolve("main"), Now: s.now, Adapters: s.adapters()}); err != nil {
				return err
			}
		}
		return nil
	}
	for name, with := range map[string]gitstore.Signer{"no key": nil, "another key": other} {
		if err := look(with); err == nil || !strings.Contains(err.Error(), "spec.signers") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.git("for-each-ref", "refs/heads/"+promote.StateBranch) != "" || strings.Contains(s.runs(), commit) {
		t.Fatal("something was written with a key that is not allowed")
	}
	if err := look(signer); err != nil {
		t.Fatal(err)
	}
	wants(t, "prod", []string{s.runs()}, commit)
	// Somebody else writes the record.
	forged := s.git("commit-tree", "-p", promote.StateBranch, "-m", "forged", promote.StateBranch+"^{tree}")
	s.git("update-ref", "refs/heads/"+promote.StateBranch, forged)
	second := s.release("two")
	if err := look(signer); err == nil || !strings.Contains(err.Error(), "not signed as spec.signers demands") {
		t.Errorf("a forged record: %v", err)
	}
	if strings.Contains(s.runs(), second) {
		t.Error("a forged record promoted")
	}
}
