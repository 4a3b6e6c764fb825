package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// counting is a builder that notes the directories that it builds.
type counting struct {
	inner *cached
	built *[]string
}

func (c counting) Build(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error) {
	*c.built = append(*c.built, root)
	return c.inner.Build(ctx, files, root)
}

// run is one run of the command line: a parent and a worker process, both without anything in memory.
type run struct {
	built []string
	calls int
	asked []string // files that the worker process asked for
}

// Call implements renderer.Caller.
func (r *run) Call(ctx context.Context, c worker.Call) ([]byte, error) {
	r.calls++
	return jobs(counting{newBuilder().(*cached), &r.built})[c.Job](ctx, c.Input,
		func(ctx context.Context, name string, input []byte) ([]byte, error) {
			if name == askFile || name == askFiles {
				r.asked = append(r.asked, string(input))
			}
			return c.Answer(ctx, name, input)
		})
}

func remembered(t *testing.T, dir string, tree fleet.Tree) (*run, []fleet.Imported) {
	t.Helper()
	r := &run{}
	out, problems, err := NewIsolated(r, nil).Remembering(NewMemory(dir, "repository", "1",
		time.Now)).Import(t.Context(), tree, request())
	if err != nil || problems.Err() != nil {
		t.Fatal(err, problems)
	}
	return r, out
}

func committed(archive string) idTree {
	return idTree{tree(archive).(mapTree).MapFS}
}

// with returns the commit with one file changed.
func (m idTree) with(name, old, changed string) idTree {
	out := idTree{maps.Clone(m.MapFS)}
	file := *out.MapFS[name]
	file.Data = []byte(strings.ReplaceAll(string(file.Data), old, changed))
	out.MapFS[name] = &file
	return out
}

func direct(t *testing.T, tree fleet.Tree) []fleet.Imported {
	t.Helper()
	out, _, err := New(nil).Import(t.Context(), tree, request())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A second run builds only what changed, and nothing for a commit that it has seen. The outcome is that of an import
// without a memory.
func TestMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := committed(repository)
	steps := []struct {
		name   string
		commit idTree
		built  []string
		calls  int
		asked  []string // nil: any
	}{
		{"first", base, []string{"clusters/prod", "clusters/prod", "bomb", "good"}, 1, nil},
		{"again", base, nil, 0, nil},
		{
			"one file", base.with("good/config.yaml", "color:", "colour:"),
			[]string{"good"},
			1,
			[]string{"good/config.yaml"},
		},
		{"another file", base.with("bomb/config.yaml", "bomb", "bang"), []string{"bomb"}, 1, nil},
		{
			"a variable", base.with("clusters/prod/apps.yaml", `"blue"`, `"red"`),
			[]string{"clusters/prod", "clusters/prod", "good"},
			1, nil,
		},
		{
			"values", base.with("clusters/prod/apps.yaml", "replicas: 3", "replicas: 4"),
			[]string{"clusters/prod", "clusters/prod"},
			1, nil,
		},
		{"another file again", base.with("bomb/config.yaml", "bomb", "bang"), nil, 0, nil},
		{
			"both files", base.with("bomb/config.yaml", "bomb", "bang").with("good/config.yaml", "color:", "colour:"), nil,
			1,
			[]string{},
		},
	}
	for _, s := range steps {
		r, got := remembered(t, dir, s.commit)
		if want := direct(t, s.commit); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v\nwithout a memory %+v", s.name, got, want)
		}
		if s.asked != nil && !slices.Equal(r.asked, s.asked) {
			t.Errorf("%s: the worker process reads %q, want %q", s.name, r.asked, s.asked)
		}
		if !slices.Equal(r.built, s.built) || r.calls != s.calls {
			t.Errorf("%s: %d calls, built %q, want %d and %q", s.name, r.calls, r.built, s.calls, s.built)
		}
	}
	added := idTree{maps.Clone(base.MapFS)}
	added.MapFS["good/more.yaml"] = base.with("good/config.yaml", "name: config",
		"name: more").MapFS["good/config.yaml"]
	if r, got := remembered(t, dir, added); !slices.Equal(r.built, []string{"good"}) ||
		!reflect.DeepEqual(got, direct(t, added)) {
		t.Errorf("a new file: built %q: %+v", r.built, got)
	}
	if _, got := remembered(t, dir, base); !reflect.DeepEqual(got, direct(t, base)) {
		t.Errorf("the first commit again: %+v", got)
	}
	r := &run{} // another build of Sluice, and another repository
	for _, m := range []*Memory{NewMemory(dir, "repository", "2", time.Now), NewMemory(dir, "other", "1", time.Now)} {
		if _, _, err := NewIsolated(r, nil).Remembering(m).Import(t.Context(), base, request()); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.built) != 8 {
		t.Errorf("built %q", r.built)
	}
}

// Damaged files count as missing ones, and a folder that cannot be written changes nothing but the time.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := committed(repository)
	want := direct(t, base)
	remembered(t, dir, base)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for n, damage := range []func(data []byte) []byte{
		func(data []byte) []byte { return data[:len(data)/2] },
		func(data []byte) []byte { data[len(data)-3] ^= 1; return data },
		func([]byte) []byte { return nil },
	} {
		for _, f := range files {
			name := filepath.Join(dir, f.Name())
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if r, got := remembered(t, dir, base); r.calls != 1 || len(r.built) != 4 || !reflect.DeepEqual(got, want) {
			t.Errorf("damage %d: %d calls, built %q: %+v", n, r.calls, r.built, got)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got := remembered(t, file, base); !reflect.DeepEqual(got, want) {
		t.Errorf("no folder: %+v", got)
	}
}

// An import that failed for a reason outside of the commit is not kept.
func TestMemoryOfPassingFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := flaky{committed(repository)}
	if _, got := remembered(t, dir, broken); !slices.ContainsFunc(got,
		func(i fleet.Imported) bool { return i.Err != nil }) {
		t.Fatalf("nothing fails: %+v", got)
	}
	if _, got := remembered(t, dir, broken.idTree); !reflect.DeepEqual(got, direct(t, broken.idTree)) {
		t.Errorf("the result of remembered is %+v", got)
	}
}

// flaky is a commit of which one file cannot be read now.
type flaky struct{ idTree }

func (f flaky) ReadFile(name string) ([]byte, error) {
	if name == "good/config.yaml" {
		return nil, errors.New("the storage does not answer")
	}
	return f.idTree.ReadFile(name)
}

// The folder keeps the files that were used last, and parts that were used last.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewMemory(t.TempDir(), "repository", "1", func() time.Time { return now })
	input := []byte("input")
	m.storeAnswer(input, "old", []byte("1"))
	m.learn(map[string][]byte{"old": []byte("1"), "used": []byte("2")}, nil)
	now = now.Add(maxAge / 2)
	m.learn(map[string][]byte{"new": []byte("3")}, []string{"used", "unknown"})
	now = now.Add(maxAge/2 + dayHour)
	m.storeAnswer(input, "new", []byte("4"))
	m.learn(map[string][]byte{"newest": []byte("5")}, nil)
	if got := m.answer(input, "old"); got != nil {
		t.Errorf("a file that was not used for %s is still there: %q", maxAge, got)
	}
	if got := m.answer(input, "new"); string(got) != "4" {
		t.Errorf("the result of answer is %q", got)
	}
	all, err := decodeParts(NewMemory(m.dir, "repository", "1", time.Now).known())
	if keys := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(keys, []string{"new", "newest", "used"}) ||
		string(all["used"].data) != "2" {
		t.Errorf("the keys are %q, the error is %v", keys, err)
	}
	large, err := (parts{
		"a": {day: 1, data: make([]byte, maxFile)},
		"b": {day: 2, data: []byte("b")},
	}).encode(2)
	if all, decoded := decodeParts(large); err != nil || decoded != nil || len(all) != 1 || all["b"].data == nil {
		t.Errorf("of a part that fits and one that does not, %d bytes with %d parts are kept (%v, %v)", len(large),
			len(all), err, decoded)
	}
}

// A job reports what it learned itself, up to a limit, and only to a parent that keeps it.
func TestWhatAJobLearnsIsBounded(t *testing.T) {
	t.Parallel()
	r := newWorkerMemory()
	learned := func(recall, fails bool, sizes ...int) []string {
		r.begin(&job{Recall: recall})
		for n, size := range sizes {
			r.Put(fmt.Sprint(size, n), make([]byte, size))
		}
		if fails {
			return nil
		}
		return slices.Sorted(maps.Keys(r.report().Learned))
	}
	learned(true, true, 1)
	for _, c := range []struct {
		recall bool
		sizes  []int
		want   []string
	}{
		{true, []int{2}, []string{"2 0"}},
		{false, []int{3}, nil},
		{true, []int{maxLearned / 2, maxLearned / 2, 1}, []string{"1 2", fmt.Sprint(maxLearned/2, 0)}},
	} {
		if got := learned(c.recall, false, c.sizes...); !slices.Equal(got, c.want) {
			t.Errorf("%+v: the result of learned is %q", c, got)
		}
	}
	if r.Get("2 0") == nil {
		t.Error("what an earlier job learned is forgotten")
	}
	files := &contents{byID: map[string][]byte{}}
	most, enough := 0, maxWorkerMemory>>12
	for n := range enough { // empty values cost their keys
		key := fmt.Sprintf("%04096d", n)
		r.Put(key, nil)
		files.add(key, nil)
		most = max(most, len(r.values), len(files.byID))
	}
	if most == enough {
		t.Errorf("%d entries", most)
	}
}

// A process that sends many empty values does not fill the memory of its parent: what it says is counted before it is
// kept.
func TestAnswersOfImportsAreBounded(t *testing.T) {
	t.Parallel()
	encoded := func(v any) []byte {
		data, err := wire.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	sent := func(text string, used, learned int, objects ...string) []byte {
		m := message{Answer: storedAnswer{JSON: []byte(text), Objects: objects}}
		m.Update.Used, m.Update.Learned = make([]string, used), map[string][]byte{}
		for n := range learned {
			m.Update.Learned[fmt.Sprint(n)] = nil
		}
		return encoded(m)
	}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"few":        {sent("{}", 2, 2), nil},
		"many parts": {sent("{}", 0, maxLearned/entryBytes+1), worker.ErrProtocol},
		"many keys":  {sent("{}", wire.MaxElements+1, 0), worker.ErrProtocol},
		"many targets": {
			sent(`{"Targets":[{}`+strings.Repeat(",{}", importValues)+"]}", 0, 0),
			worker.ErrOutput,
		},
		"no JSON":           {sent("x", 0, 0), worker.ErrProtocol},
		"parts are missing": {sent("{}", 0, 2)[:7], worker.ErrProtocol},
		"no objects":        {sent(`{"Targets":[{"Sources":[{}]}]}`, 0, 0), worker.ErrProtocol},
		"too many objects":  {sent("{}", 0, 0, "x"), worker.ErrProtocol},
		"another message":   {encoded(map[string]any{"Unknown": 1}), worker.ErrProtocol},
	} {
		if _, _, err := unseal(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: the error is %v, want %v", name, err, c.want)
		}
	}
}
