package gitstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// advert returns the lines of an advertisement.
func advert(lines ...string) []byte {
	var out bytes.Buffer
	for _, line := range lines {
		fmt.Fprintf(&out, "%04x%s", len(line)+lineHead, line)
	}
	out.WriteString("0000")
	return out.Bytes()
}

// someRefs is an advertisement with n branches.
func someRefs(n int) []byte {
	lines := []string{strings.Repeat("a", 40) +
		" HEAD\x00report-status atomic agent=git/2.39.5 symref=HEAD:refs/heads/main\n"}
	for i := range n {
		lines = append(lines, fmt.Sprintf("%040x refs/heads/cluster/c-%04d\n", i+1, i))
	}
	return advert(lines...)
}

// counted counts reads. It gives one line at a time, as git-receive-pack writes them, or as much as is asked for.
type counted struct {
	data    []byte
	line    bool
	reads   int
	largest int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	c.largest = max(c.largest, len(p))
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(c.data))
	if end := bytes.IndexByte(c.data, '\n'); c.line && end >= 0 {
		n = min(n, end+1)
	}
	copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

func TestAdvertisementIsReadInParts(t *testing.T) {
	t.Parallel()
	const branches = 5000
	text := someRefs(branches)
	whole := &counted{data: text}
	a, err := readAdvertised(whole, nil)
	if err != nil || len(a.refs) != branches+1 || !a.capabilities.Supports("atomic") ||
		a.refs["refs/heads/cluster/c-4999"].String() != fmt.Sprintf("%040x", branches) {
		t.Fatalf("%d refs, %v", len(a.refs), err)
	}
	if most := len(text)/advertRead + 2; whole.reads > most || whole.largest > advertRead {
		t.Errorf("%d reads of up to %d bytes for %d bytes, want at most %d of %d", whole.reads, whole.largest,
			len(text), most, advertRead)
	}
	lines := &counted{data: text, line: true}
	one := func(name []byte) bool { return string(name) == "refs/heads/cluster/c-0007" }
	if a, err = readAdvertised(lines, one); err != nil || len(a.refs) != 1 ||
		a.refs["refs/heads/cluster/c-0007"].IsZero() {
		t.Errorf("one wanted ref of %d: %v, %v", branches, a, err)
	}
	if lines.reads > branches+2 {
		t.Errorf("%d reads for %d lines", lines.reads, branches+1)
	}
}

var advertisements = map[string][]byte{
	"usual": someRefs(3),
	"empty": advert(noRefs + "\x00report-status\n"),
	"tags": advert(strings.Repeat("1", 40)+" refs/tags/v1\x00atomic\n", strings.Repeat("2", 40)+
		" refs/tags/v1^{}\n"),
	"shallow": advert(strings.Repeat("1", 40)+" refs/heads/main\x00atomic\n", "shallow "+strings.Repeat("3", 40)+
		"\n"),
	"have":          advert(strings.Repeat("1", 40)+" .have\x00atomic\n", strings.Repeat("4", 40)+" .have\n"),
	"no newline":    advert(strings.Repeat("1", 40) + " refs/heads/main\x00atomic"),
	"upper case":    advert(strings.Repeat("A", 40) + " refs/heads/main\x00atomic\n"),
	"zero id":       advert(strings.Repeat("1", 40)+" HEAD\x00atomic\n", strings.Repeat("0", 40)+" refs/heads/main\n"),
	"error":         advert("ERR access denied\n"),
	"late error":    advert(strings.Repeat("1", 40)+" HEAD\x00atomic\n", "ERR too slow\n"),
	"no hash":       advert(strings.Repeat("z", 40) + " refs/heads/main\x00atomic\n"),
	"two spaces":    advert(strings.Repeat("1", 40)+" HEAD\x00atomic\n", strings.Repeat("1", 40)+" refs/heads/a b\n"),
	"no name":       advert(strings.Repeat("1", 40)+" HEAD\x00atomic\n", strings.Repeat("1", 40)+" \n"),
	"nothing":       {},
	"cut":           someRefs(3)[:100],
	"no length":     []byte("zzzz"),
	"wrong length":  []byte("0003"),
	"only the end":  []byte("0000"),
	"comment":       advert("# service=git-upload-pack\n"),
	"prefix length": []byte("fff5x"),
}

// What go-git would read differently is an error, after which go-git reads it.
func TestAdvertisementsAreGoGits(t *testing.T) {
	t.Parallel()
	for name, text := range advertisements {
		if err := likeGoGit(text); err != nil {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	for _, name := range []string{"usual", "empty", "tags", "have", "no newline", "upper case"} {
		if _, err := readAdvertised(bytes.NewReader(advertisements[name]), nil); err != nil {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	for _, name := range []string{
		"zero id", "shallow", "error", "late error", "no hash", "nothing", "cut", "no length",
		"wrong length",
	} {
		if _, err := readAdvertised(bytes.NewReader(advertisements[name]), nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzAdvertised(f *testing.F) {
	for _, text := range advertisements {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := likeGoGit(text); err != nil {
			t.Error(err)
		}
	})
}

// likeGoGit returns an error if readAdvertised reads something else than go-git.
func likeGoGit(text []byte) error {
	a, unusual := readAdvertised(bytes.NewReader(text), nil)
	if unusual != nil {
		return nil //nolint:nilerr // go-git reads it
	}
	want := packp.NewAdvRefs()
	if err := want.Decode(bytes.NewReader(text)); err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		return fmt.Errorf("go-git fails: %w", err)
	}
	if refs := refsOf(want); !maps.Equal(a.refs, refs) {
		return fmt.Errorf("%v, go-git has %v", a.refs, refs)
	}
	for _, c := range a.capabilities.All() {
		if !slices.Equal(a.capabilities.Get(c), want.Capabilities.Get(c)) {
			return fmt.Errorf("capability %s: %v, go-git has %v", c, a.capabilities.Get(c), want.Capabilities.Get(c))
		}
	}
	return nil
}
