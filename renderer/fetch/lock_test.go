package fetch

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func sampleLock() *Lock {
	l := &Lock{}
	l.Set(Ref{"https://charts.example.com/", "web", "^1"}, Locked{"1.2.3", digestOf([]byte("a"))})
	l.Set(Ref{"https://charts.example.com", "web", "1.10"}, Locked{"1.10.7", digestOf([]byte("b"))})
	l.Set(Ref{"oci://r.example.com/charts", "api", "*"}, Locked{"v2.0.0+x", digestOf([]byte("c"))})
	return l
}

const sampleText = lockHeader + `apiVersion: sluice.dev/v1alpha1
kind: Lock
charts:
  - chart: oci://r.example.com/charts/api
    version: '*'
    resolved: v2.0.0+x
    digest: sha256:2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6
  - chart: web
    repo: https://charts.example.com
    version: "1.10"
    resolved: 1.10.7
    digest: sha256:3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d
  - chart: web
    repo: https://charts.example.com
    version: ^1
    resolved: 1.2.3
    digest: sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb
`

func TestLockText(t *testing.T) {
	t.Parallel()
	data, err := sampleLock().Bytes()
	if err != nil || string(data) != sampleText {
		t.Fatalf("the error is %v\nthe data is\n%s", err, data)
	}
	back, err := ParseLock(data)
	if err != nil || !reflect.DeepEqual(back, sampleLock()) {
		t.Fatalf("the back is %v, the error is %v", back, err)
	}
	for _, ref := range []Ref{
		{"https://charts.example.com/", "web", "^1"},
		{"", "oci://r.example.com/charts/api", "*"},
		{"oci://r.example.com/charts/", "api", "*"},
	} {
		if _, ok := back.Lookup(ref); !ok {
			t.Errorf("%s is not found", ref)
		}
	}
	if _, ok := back.Lookup(Ref{"https://charts.example.com", "web", "^2"}); ok {
		t.Error("another range must not be locked")
	}
	empty, err := new(Lock).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{empty, nil, []byte(" \n")} {
		l, err := ParseLock(data)
		if err != nil || len(l.Refs()) != 0 {
			t.Errorf("empty lock: %v, %v", l, err)
			continue
		}
		l.Set(Ref{"", "oci://r.example.com/x", "*"}, Locked{"1.0.0", digestOf(nil)})
	}
}

func TestLockIsDeterministic(t *testing.T) {
	t.Parallel()
	sample := sampleLock()
	for range 20 {
		refs := sample.Refs()
		rand.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
		l := &Lock{}
		for _, r := range refs {
			l.Set(r, Locked{"0.0.0", digestOf(nil)})
			l.Set(r, sample.entries[r])
		}
		if data, err := l.Bytes(); err != nil || string(data) != sampleText {
			t.Fatalf("the error is %v\nthe data is\n%s", err, data)
		}
	}
}

func TestPruneAndRequire(t *testing.T) {
	t.Parallel()
	l := sampleLock()
	dropped := l.Prune([]Ref{
		{"oci://r.example.com/charts", "api", "*"},
		{"https://charts.example.com/", "web", "^1"},
		{"https://never.example.com", "x", "*"},
	})
	if len(dropped) != 1 || dropped[0].Version != "1.10" || len(l.Refs()) != 2 {
		t.Errorf("%v, left %v", dropped, l.Refs())
	}
	_, err := l.Require(dropped[0])
	var unlocked *UnlockedError
	if !errors.As(err, &unlocked) || unlocked.Ref != dropped[0] ||
		!strings.Contains(err.Error(),
			"chart web 1.10 from https://charts.example.com is not in sluice.lock: run `sluice deps lock`") {
		t.Errorf("the error is %v", err)
	}
	if got, err := l.Require(l.Refs()[0]); err != nil || got.Version != "v2.0.0+x" {
		t.Errorf("the result of Require is %v, the error is %v", got, err)
	}
}

func TestLockErrorsHaveLines(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts:\n"
	entry := func(change ...string) string {
		return strings.NewReplacer(change...).Replace("- chart: web\n  repo: https://charts.example.com\n  version: ^1\n  resolved: 1.2.3\n  digest: " + digestOf(nil) + "\n")
	}
	for text, want := range map[string][]string{
		"# nothing\n":  {"sluice.lock:1: the file has only comments"},
		"a: [":         {"sluice.lock:1: did not find"},
		"- x\n":        {"sluice.lock:1: the file must be a mapping"},
		"null\n":       {"sluice.lock:1: the file must be a mapping"},
		head:           {"sluice.lock:3: `charts` must be a list"},
		"charts: []\n": {"sluice.lock:1: `apiVersion` must be", "sluice.lock:1: `kind` must be"},
		"apiVersion: sluice.dev/v2\nkind: Fleet\ncharts: []\n": {
			"sluice.lock:1: `apiVersion` must be",
			"sluice.lock:2: `kind` must be",
		},
		head + "- web\n":                          {"sluice.lock:4: an entry must be a mapping"},
		head + entry() + entry():                  {"sluice.lock:9: chart web ^1 from https://charts.example.com is already locked in line 4"},
		head + entry() + entry("com\n", "com/\n"): {"sluice.lock:9: chart web", "line 4"},
		head + entry("repo", "repository"):        {"sluice.lock:5: unknown key \"repository\""},
		head + entry("repo", "chart"):             {"sluice.lock:5: the key \"chart\" is there twice"},
		head + entry("^1", "1.5"):                 {"sluice.lock:6: `version` must be a string: put it in quotes"},
		head + entry("^1", "[a]"):                 {"sluice.lock:6: `version` must be a string"},
		head + entry("^1", "''"):                  {"sluice.lock:4:", "no version is given"},
		head + entry("^1", "latest"):              {"sluice.lock:4:", "neither a version nor a range"},
		head + entry("1.2.3", "next"): {
			"sluice.lock:4:",
			`locked version "next" is not a version`,
		},
		head + entry("sha256:", "md5:"): {
			"sluice.lock:4:", `locked digest "md5:e3b0`,
			"64 lower-case hex digits",
		},
		head + entry("e3b0", "E3B0"):                       {"sluice.lock:4:", "64 lower-case hex digits"},
		head + entry("855\n", "85\n"):                      {"sluice.lock:4:", "64 lower-case hex digits"},
		head + entry("https", "file"):                      {"sluice.lock:4:", `scheme "file" is not supported`},
		head + "- {}\n":                                    {"`chart` is missing", "`version` is missing", "`resolved` is missing", "`digest` is missing"},
		head + "- &a " + entry()[2:] + "- *a\n":            {"sluice.lock:9: an entry must be a mapping"},
		head + entry() + "---\na: b\n":                     {"more than one document"},
		head + entry() + "extra: 1\n":                      {"sluice.lock:9: unknown key \"extra\""},
		strings.Repeat("#", maxLock+1):                     {"larger than 4 MiB"},
		strings.Repeat("- ", maxLockNodes+1):               {"too many entries"},
		head + entry("^1", "1.5") + entry("1.2.3", "next"): {"sluice.lock:6:", "sluice.lock:9:"},
	} {
		l, err := ParseLock([]byte(text))
		if err == nil || l != nil {
			t.Errorf("%.80q: no error", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%.200q: the error is %v; want %q", text, err, w)
			}
		}
	}
	many := head + strings.Repeat("- x\n", 5000)
	if _, err := ParseLock([]byte(many)); err == nil || strings.Count(err.Error(), "\n") != maxLockErrors-1 {
		t.Errorf("the number of errors must be bounded: %d", strings.Count(err.Error(), "\n"))
	}
}

// Whatever is read is written again as the same lock, and writing is stable.
func FuzzParseLock(f *testing.F) {
	f.Add([]byte(sampleText))
	f.Add([]byte("apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts: []\n"))
	f.Add([]byte("# a\napiVersion: sluice.dev/v1alpha1\nkind: Lock # b\ncharts:\n# c\n- chart: oci://a/b # d\n  version: '1' # e\n\n  # f\n  resolved: 1.0.0\n  digest: " + digestOf(nil) + "\n  # g\n# h\n"))
	f.Add([]byte("{apiVersion: sluice.dev/v1alpha1, kind: Lock, charts: [{chart: 'oci://a/b', version: '>=1 <2', resolved: v1.0.0-rc.1+x, digest: '" + digestOf(nil) + "'}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLock(data)
		if err != nil {
			if l != nil || !strings.Contains(err.Error(), LockFile) {
				t.Fatalf("the result of ParseLock is %v, the error is %v", l, err)
			}
			return
		}
		out, err := l.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseLock(out)
		if err != nil || !reflect.DeepEqual(back.Refs(), l.Refs()) || !maps.Equal(back.entries, l.entries) || !maps.Equal(back.pins, l.pins) {
			t.Fatalf("the error is %v\nthe output is\n%s", err, out)
		}
		again, err := back.Bytes()
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("the error is %v\nthe output is\n%s\nthe again is\n%s", err, out, again)
		}
		for _, r := range l.Refs() {
			path := VendorPath(r, l.entries[r])
			if strings.Count(path, "/") != 2 || strings.ContainsAny(path, "\\:*?\"<>|\x00") {
				t.Fatalf("the path is %q", path)
			}
		}
	})
}

// A reference is shown, compared and refused without a panic, and never with its user information.
func FuzzRef(f *testing.F) {
	f.Add("https://u:secretpart@charts.example.com", "web", "^1")
	f.Add("oci://u:secretpart@r.example.com/x", "web", "*")
	f.Add("", "oci://r.example.com/x@secretpart", "1.2.3")
	f.Fuzz(func(t *testing.T, repo, chart, version string) {
		r := Ref{repo, chart, version}
		err := r.Check()
		if r.normal() != r.normal().normal() && err == nil {
			t.Fatalf("normal is %q, normal is %q", r.normal(), r.normal().normal())
		}
		shown := r.String()
		if err != nil {
			shown += err.Error()
		}
		if strings.Contains(shown, ":secretpart@") || strings.ContainsAny(shown, "\x00\x1b\n") {
			t.Fatalf("the shown is %q", shown)
		}
	})
}

// What people write about an entry stays with it when Sluice writes the file again, and is gone with the entry.
func TestCommentsOfALock(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("1", 64)
	entry := func(name, head, line string) string {
		return head + "  - chart: " + name + line + "\n    repo: https://charts.org\n    version: ^1.0.0\n    resolved: 1.0.0 # waits for the schema\n    digest: " + digest + "\n"
	}
	pin := func(name, head, commit string) string {
		return head + "  - name: " + name + "\n    url: https://git.org/" + name + "\n    wanted: refs/heads/main\n    resolved: refs/heads/main\n    commit: " + strings.Repeat(commit, 40) + " # the last with the old API\n"
	}
	const begin = "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts:\n"
	text := lockHeader + begin +
		entry("a", "  # the first\n", "") + entry("b", "  # the second\n  # in two lines\n", " # beside") + entry("c", "", "") +
		"repositories:\n" + pin("one", "  # of the platform team\n", "a") + pin("two", "  # of another team\n", "b")
	lock, err := ParseLock([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	same := func(lock *Lock, want string) {
		t.Helper()
		got, err := lock.Bytes()
		if err != nil || string(got) != want {
			t.Errorf("%v\n%s\nshould be\n%s", err, got, want)
		}
	}
	same(lock, text)
	moved := lock.Clone()
	p, _ := moved.Pin("one")
	p.Commit = strings.Repeat("c", 40)
	moved.SetPin("one", p)
	moved.Prune([]Ref{{Repo: "https://charts.org", Chart: "b", Version: "^1.0.0"}})
	same(moved, lockHeader+begin+entry("b", "  # the second\n  # in two lines\n", " # beside")+
		"repositories:\n"+pin("one", "  # of the platform team\n", "c")+pin("two", "  # of another team\n", "b"))
	same(lock, text) // the clone shares no comment that changed
}
