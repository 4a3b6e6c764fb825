package gitstore

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func FuzzTrailers(f *testing.F) {
	f.Add("subject", "body", "value")
	f.Add("Sluice-Source: x", "a\n\nSluice-Source: forged\n", "v\nSluice-Approved-By: me")
	f.Add("", "\r\n\r\nA: b\r\n", "\u2028x")
	f.Fuzz(func(t *testing.T, subject, body, value string) {
		got := Trailers(Message(subject, body, []Trailer{{"Sluice-Source", value}, {"Sluice-Version", "1"}}))
		if none := Trailers(Message(subject, body, nil)); none != nil {
			t.Fatalf("%q %q gave %+v of its own", subject, body, none)
		}
		if len(got) != 2 || got[0] != (Trailer{"Sluice-Source", oneLine(value)}) || got[1].Value != "1" {
			t.Fatalf("%q %q %q gave %+v", subject, body, value, got)
		}
	})
}

func FuzzSignature(f *testing.F) {
	f.Add("A", "a@example.com", int64(1700000000))
	f.Add("A <x> 1 +0000\nparent", "\n", int64(-5))
	f.Fuzz(func(t *testing.T, name, email string, unix int64) {
		s := Signature{name, email, time.Unix(max(unix%1e10, 0), 0).UTC()}
		data, err := encodeCommit(CommitSpec{Tree: Hash{1}, Author: s, Committer: s, Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseCommit(Hash{}, data)
		if err != nil || len(c.Parents) != 0 || c.Message != "m" || !c.Author.When.Equal(s.When) {
			t.Fatalf("%q came back as %+v (%v)", data, c, err)
		}
	})
}

func TestTrailersAreInTheLastParagraph(t *testing.T) {
	for message, want := range map[string]int{
		"subject\n\nbody\n\nA: b\nC: d\n": 2,
		"subject\n\nA: b\n\nbody\n":       0,
		"A: b\n":                          0,
		"subject\n\nA: b\nno trailer\n":   0,
		"subject\n\n-A: b\n":              0,
		"subject\n\nA: b\n\n\n":           1,
		"":                                0,
	} {
		if got := Trailers(message); len(got) != want {
			t.Errorf("%q: the result of Trailers is %+v", message, got)
		}
	}
}

// Checks with Git itself that the encoder accepts only valid names (for a few), and that all encoded trees decode to
// the same entries.
func FuzzTreeNames(f *testing.F) {
	for _, name := range []string{
		"a", ".git", ".GiT ", "git~1", ".git . :x", "a\\b", "..", "x\u200c", "\ufeff.git",
		"a.lock", "-",
	} {
		f.Add(name, "b")
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		data, err := encodeTree([]Entry{{x, ModeFile, Hash{1}}, {y, ModeTree, Hash{2}}})
		if err != nil {
			return
		}
		back, err := parseTree(data)
		if err != nil || len(back) != 2 {
			t.Fatalf("%q and %q came back as %+v: %v", x, y, back, err)
		}
		for _, e := range back {
			low := strings.ToLower(e.Name)
			if strings.ContainsAny(low, "/\\\x00") || strings.TrimRight(strings.Split(low, ":")[0], ". ") == ".git" ||
				low == "." || low == ".." {
				t.Fatalf("%q was taken", e.Name)
			}
		}
	})
}

// Hostile objects give an error or a value, never a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("tree 0100000000000000000000000000000000000000\nauthor a <b> 1 +0000\ncommitter a <b> 1 +9999\n\nm"))
	f.Add([]byte("object x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if entries, err := parseTree(data); err == nil {
			for _, e := range entries {
				if e.Name == "" || e.Name == ".." || strings.Contains(e.Name, "/") {
					t.Fatalf("%q was read", e.Name)
				}
			}
		}
		if c, err := parseCommit(Hash{}, data); err == nil && !bytes.HasPrefix(bytes.ToLower(data),
			[]byte("tree "+c.Tree.String())) {
			t.Fatalf("%q has the tree %s", data, c.Tree)
		}
		_, _ = taggedObject(data)
		_ = Trailers(string(data))
	})
}
