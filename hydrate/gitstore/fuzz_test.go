package gitstore

import (
	"testing"
	"time"
)

func FuzzTrailers(f *testing.F) {
	f.Add("subject", "body", "value")
	f.Add("Sluice-Source: x", "a\n\nSluice-Source: forged\n", "v\nSluice-Approved-By: me")
	f.Add("", "\r\n\r\nA: b\r\n", "\u2028x")
	f.Fuzz(func(t *testing.T, subject, body, value string) {
		got := Trailers(Message(subject, body, []Trailer{{"Sluice-Source", value}, {"Sluice-Version", "1"}}))
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
