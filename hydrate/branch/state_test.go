package branch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// withRecord commits env/dev again with another entry below .sluice.
func withRecord(r *hydratetest.Repo, entry string) {
	r.T.Helper()
	var own []string
	name := entry[strings.LastIndex(entry, "\t")+1:]
	for line := range strings.SplitSeq(r.Git("ls-tree", "env/dev:.sluice"), "\n") {
		if !strings.HasSuffix(line, "\t"+name) {
			own = append(own, line)
		}
	}
	dir := r.Pipe(strings.Join(append(own, entry), "\n")+"\n", "mktree", "--missing")
	var root []string
	for line := range strings.SplitSeq(r.Git("ls-tree", "env/dev"), "\n") {
		if !strings.HasSuffix(line, "\t.sluice") {
			root = append(root, line)
		}
	}
	tree := r.Pipe(strings.Join(append(root, "040000 tree "+dir+"\t.sluice"), "\n")+"\n", "mktree")
	r.Git("branch", "-qf", "env/dev", r.Git("commit-tree", "-m", r.Git("log", "-1", "--format=%B", "env/dev"), tree))
}

func read(r *hydratetest.Repo) (*branch.State, error) {
	r.T.Helper()
	h := r.Hydrator(1)
	tip, err := gitstore.ParseHash(r.Git("rev-parse", "env/dev"))
	if err != nil {
		r.T.Fatal(err)
	}
	return branch.ReadState(r.T.Context(), h.Store, "env/dev", "dev", tip, signers.List{})
}

// If the repository lacks the object of a record, reading it is an error. The branch does not count as one without a
// record.
func TestRecordsThatCannotBeReadAreErrors(t *testing.T) {
	t.Parallel()
	const absent = "0123456789012345678901234567890123456789"
	for _, entry := range []string{
		"100644 blob " + absent + "\tenvironment.yaml",
		"100644 blob " + absent + "\tkinds.yaml",
		"040000 tree " + absent + "\tinputs",
	} {
		t.Run(entry[strings.LastIndex(entry, "\t")+1:], func(t *testing.T) {
			t.Parallel()
			r := hydratetest.Demo(t)
			r.Hydrate(nil)
			withRecord(r, entry)
			if st, err := read(r); !errors.Is(err, gitstore.ErrNotFound) {
				t.Errorf("the state is %+v, the error is %v", st, err)
			}
		})
	}
}

// If somebody overwrote a record, the branch is foreign. It does not count as a branch without a record.
func TestRecordsThatCannotBeParsedAreForeign(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"environment.yaml", "kinds.yaml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.Demo(t)
			r.Hydrate(nil)
			withRecord(r, "100644 blob "+r.Pipe("{broken", "hash-object", "-w", "--stdin")+"\t"+name)
			st, err := read(r)
			if err != nil || !strings.Contains(st.Foreign, ".sluice/"+name+" cannot be parsed") {
				t.Errorf("the state is %+v, the error is %v", st, err)
			}
		})
	}
}

func TestStateOfAHydratedBranch(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	st, err := read(r)
	if err != nil {
		t.Fatal(err)
	}
	if st.Foreign != "" || st.Record.Source != r.Git("rev-parse", "main") || len(st.Clusters) != 2 ||
		len(st.Inputs) != 2 || st.Source().Commit != st.Record.Source {
		t.Errorf("the state is %+v", st)
	}
	if missing, err := branch.ReadState(t.Context(), r.Hydrator(1).Store, "env/x", "x", gitstore.Hash{},
		signers.List{}); err != nil || missing.Exists() || missing.Source().Commit != "" {
		t.Errorf("the missing is %+v, the error is %v", missing, err)
	}
}
