package gitstore

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestSignedCommitsVerify(t *testing.T) {
	keys := t.TempDir()
	run := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(keys, "id"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Skipf("ssh-keygen is not on this machine: %v %s", err, out)
	}
	key, err := os.ReadFile(filepath.Join(keys, "id"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := NewSigner(key, "")
	if err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	tree, _ := w.Tree(nil)
	who := Signature{"S", "s@example.com", time.Unix(1700000000, 0).UTC()}
	h, err := w.Commit(CommitSpec{Tree: tree, Author: who, Committer: who, Message: "signed\n", Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	push(t, s.Local(), w, Move{"env/dev", Hash{}, h})
	public, _ := os.ReadFile(filepath.Join(keys, "id.pub"))
	write(t, keys, "allowed", "s@example.com "+string(public))
	runGit(t, bare, "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+filepath.Join(keys, "allowed"), "verify-commit", "env/dev")
	runGit(t, bare, "fsck", "--strict")
}
