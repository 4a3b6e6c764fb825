package fetch

import (
	"reflect"
	"strings"
	"testing"
)

func TestLockOfRepositories(t *testing.T) {
	t.Parallel()
	l := sampleLock()
	pin := Pin{
		URL: "https://git.example.com/acme/components", Wanted: "v1.*", Resolved: "refs/tags/v1.2.0",
		Commit: strings.Repeat("a1", 20),
	}
	l.SetPin("components", pin)
	l.SetPin("base", Pin{
		URL: "ssh://git@example.com/base", Wanted: "main", Resolved: "refs/heads/main",
		Commit: strings.Repeat("12", 20),
	})
	data, err := l.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseLock(data)
	if err != nil || !reflect.DeepEqual(back, l) {
		t.Fatalf("the error is %v\nthe data is\n%s", err, data)
	}
	if got, ok := back.Pin("components"); !ok || got != pin {
		t.Errorf("the result of Pin is %+v", got)
	}
	if _, ok := back.Pin("other"); ok {
		t.Error("a repository that is not locked has a pin")
	}
	head, _, _ := strings.Cut(sampleText, "charts:")
	for name, text := range map[string]string{
		"is not a commit":  "- {name: a, url: u, wanted: main, resolved: r, commit: abc}",
		"is missing":       "- {name: a, url: u, wanted: main, resolved: r}",
		"unknown key":      "- {name: a, url: u, wanted: main, resolved: r, commit: abc, branch: x}",
		"must be a string": "- {name: a, url: u, wanted: 1, resolved: r, commit: abc}",
		"is locked twice": strings.Repeat("- {name: a, url: u, wanted: m, resolved: r, commit: "+pin.Commit+"}\n  ",
			2),
		"must be a list":    "  a: b",
		"must be a mapping": "- text",
	} {
		if _, err := ParseLock([]byte(head + "charts: []\nrepositories:\n  " + text)); err == nil ||
			!strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "sluice.lock:") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
