package hint_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	p := hint.NewPlace("hub", "acme/group/fleet")
	if p.Forge() != "hub" || p.Repo().Path != "acme/group/fleet" || p.String() != "hub:acme/group/fleet" {
		t.Errorf("%q: forge %q, repository %q", p, p.Forge(), p.Repo().Path)
	}
	if all := hint.NewPlace("hub", ""); all.Forge() != "hub" || all.Repo().Path != "" {
		t.Errorf("%q: forge %q, repository %q", all, all.Forge(), all.Repo().Path)
	}
}

// Pins the JSON form, because queues on disk contain it.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(hint.Hint{
		Place: "hub:acme/fleet", Kind: hint.Comment, Number: 7, Comment: 9,
		Urgent: true, Force: true, ID: "d",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"place":"hub:acme/fleet","kind":"comment","number":7,"comment":9,"force":true,"id":"d","at":"0001-01-01T00:00:00Z"}`
	if string(data) != want {
		t.Errorf("the data is %s, want %s", data, want)
	}
}

func TestPartition(t *testing.T) {
	t.Parallel()
	partitions := map[string][]hint.Kind{}
	for _, k := range []hint.Kind{hint.Review, hint.Group, hint.Trunk, hint.Comment, hint.Sweep, hint.Follow} {
		partition := hint.Hint{Place: "hub:acme/fleet", Kind: k}.Partition()
		partitions[partition] = append(partitions[partition], k)
		if k.Reviews() != (k == hint.Review || k == hint.Group) {
			t.Errorf("%s: Reviews is %t", k, k.Reviews())
		}
	}
	if len(partitions) != 3 || len(partitions["hub:acme/fleet"]) != 3 {
		t.Errorf("partitions are %v", partitions)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 1}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*hint.Hint){
		"no place":   func(h *hint.Hint) { h.Place = "" },
		"long place": func(h *hint.Hint) { h.Place = hint.Place(strings.Repeat("a", 513)) },
		"line break": func(h *hint.Hint) { h.Place = "hub:a/b\nc" }, "kind": func(h *hint.Hint) { h.Kind = "Review.x" },
		"number": func(h *hint.Hint) { h.Number = -1 }, "comment": func(h *hint.Hint) { h.Comment = -1 },
		"ref":      func(h *hint.Hint) { h.Ref = strings.Repeat("a", 1025) },
		"delivery": func(h *hint.Hint) { h.ID = strings.Repeat("a", 257) },
	} {
		h := good
		change(&h)
		if err := h.Check(); !errors.Is(err, hint.ErrInvalid) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
