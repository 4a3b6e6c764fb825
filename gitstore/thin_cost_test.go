package gitstore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCostOfThin compares the packfile of a change of one app on 1,000 clusters with `git bundle` of the same commits,
// in a repository that Git has packed. Processor time is only printed: Git copies what it has packed already.
func TestCostOfThin(t *testing.T) {
	if testing.Short() {
		t.Skip("it packs 1,000 clusters twice: run make test-e2e")
	}
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--bare")
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	before := clustersWith(t, w, "first")
	after := clustersWith(t, w, "second", before)
	if _, err := s.Local().Push(t.Context(), w, []Move{{Branch: "env/gov", New: after}}, PushOptions{}); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "gc", "-q")
	const rounds = 5
	own, git := time.Hour, time.Hour
	var size int
	file := filepath.Join(t.TempDir(), "git.bundle")
	for range rounds {
		begin := processTime(t)
		var out bytes.Buffer
		if _, err := open(t, Options{Dir: dir}).WriteThin(t.Context(), &out, Range{From: before, To: after}); err != nil {
			t.Fatal(err)
		}
		own, size = min(own, processTime(t)-begin), out.Len()
		cmd := exec.CommandContext(t.Context(), "git", "bundle", "create", "-q", file, "env/gov", "^"+before.String())
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		git = min(git, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ours: %d bytes, %s; git bundle: %d bytes, %s", size, own, info.Size(), git)
	if int64(size) > 2*info.Size() {
		t.Errorf("ours has %d bytes, and that of git bundle %d", size, info.Size())
	}
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// clustersWith writes an environment branch's commit: 1,000 clusters with 20 apps each, one of which has a file of each
// cluster's own, and the inputs of each cluster.
func clustersWith(t *testing.T, w *Writer, text string, parents ...Hash) Hash {
	t.Helper()
	must := func(h Hash, err error) Hash {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	app := func(content string) Hash {
		blob := must(w.Blob([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config\n  namespace: shop\ndata:\n  text: " + content + "\n")))
		return must(w.Tree([]Entry{{"configmap-config.yaml", ModeFile, blob}}))
	}
	var clusters, inputs []Entry
	for c := range 1000 {
		var apps []Entry
		digests := "apiVersion: sluice.dev/v1alpha1\nkind: Inputs\napps:\n"
		for a := range 20 {
			name, content := fmt.Sprintf("app%02d", a), fmt.Sprintf("app %d", a)
			if a == 0 {
				content = fmt.Sprintf("cluster %d %s", c, text)
			}
			apps = append(apps, Entry{name, ModeTree, app(content)})
			digests += fmt.Sprintf("  %s: sha256:%s\n", name, app(content).String()+app(name).String())
		}
		cluster := fmt.Sprintf("gov-%04d", c)
		clusters = append(clusters, Entry{cluster, ModeTree, must(w.Tree(apps))})
		inputs = append(inputs, Entry{cluster + ".yaml", ModeFile, must(w.Blob([]byte(digests)))})
	}
	own := must(w.Tree([]Entry{{"inputs", ModeTree, must(w.Tree(inputs))}}))
	tree := must(w.Tree(append(clusters, Entry{".sluice", ModeTree, own})))
	who := Signature{"Sluice", "s@example.com", time.Unix(1_700_000_000, 0).UTC()}
	return must(w.Commit(CommitSpec{Tree: tree, Parents: parents, Author: who, Committer: who, Message: text + "\n"}))
}
