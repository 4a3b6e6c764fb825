package incoming

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
)

func commit(tb testing.TB, w *gitstore.Writer, s *gitstore.Store, i Import, change func(*gitstore.CommitSpec), parents ...gitstore.Hash) gitstore.Commit {
	tb.Helper()
	tree, err := w.Tree(nil)
	if err != nil {
		tb.Fatal(err)
	}
	who := gitstore.Signature{Name: "Sluice", Email: "s@example.com", When: time.Unix(1_700_000_000, 0).UTC()}
	spec := gitstore.CommitSpec{
		Tree: tree, Parents: parents, Author: who, Committer: who, Message: gitstore.Message("Import", "", i.Trailers()),
	}
	if change != nil {
		change(&spec)
	}
	h, err := w.Commit(spec)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := s.Commit(tb.Context(), h)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := gitstore.OpenMemory()
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	home := gitstore.Hash{1}
	first := Import{Environment: "gov", Sequence: 3, Digest: strings.Repeat("a", 64), Home: home}
	one := commit(t, w, s, first, nil, home)
	second := Import{Environment: "gov", Sequence: 7, Digest: strings.Repeat("b", 64), Home: gitstore.Hash{2}}
	two := commit(t, w, s, second, nil, one.Hash, second.Home)
	got, err := History(t.Context(), s, "gov", two.Hash, 10)
	if err != nil || len(got) != 2 || got[0].Sequence != 7 || got[1].Sequence != 3 ||
		got[1].Home != home || got[0].Tree != two.Tree || !got[0].At.Equal(time.Unix(1_700_000_000, 0)) {
		t.Fatalf("the history is %+v, %v", got, err)
	}
	if got, err := History(t.Context(), s, "gov", two.Hash, 1); err != nil || len(got) != 1 {
		t.Errorf("with a limit: %+v, %v", got, err)
	}
	if _, err := History(t.Context(), s, "air", two.Hash, 10); err == nil {
		t.Error("an import for gov counts for air")
	}
	for name, change := range map[string]func(*gitstore.CommitSpec){
		"no trailers":    func(c *gitstore.CommitSpec) { c.Message = "Import\n" },
		"another parent": func(c *gitstore.CommitSpec) { c.Parents = []gitstore.Hash{{9}} },
		"no parent":      func(c *gitstore.CommitSpec) { c.Parents = nil },
		"sequence 0":     func(c *gitstore.CommitSpec) { c.Message = strings.Replace(c.Message, ": 3", ": 0", 1) },
		"no digest":      func(c *gitstore.CommitSpec) { c.Message = strings.ReplaceAll(c.Message, "aaa", "xxx") },
	} {
		bad := commit(t, w, s, first, change, home)
		if _, err := History(t.Context(), s, "gov", bad.Hash, 10); err == nil || !strings.Contains(err.Error(), "is not an import") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
