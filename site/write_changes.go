package site

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/page"
)

// Reports makes the reports of changes.
type Reports struct {
	// Make makes one of them.
	Make func(Change) (*report.Review, error)
	// Reads returns a digest of what Make reads of the trunk. A report is made again when that changes.
	Reads func(Change) ([]byte, error)
	// Fleet is the name of the fleet, and Version and Key are what Make works with; Key is nil if it is a random one.
	// Reports of others are made again.
	Fleet, Version string
	Key            []byte
	// MaxBytes limits the total size of an environment's comparisons of states that are not adjacent; 0 is 16 MiB.
	MaxBytes int64
	// MaxTargets limits the targets that one run compares for them, of all environments together; 0 is 3,000,000. A
	// later run continues.
	MaxTargets int
}

const (
	comparedBytes   = 16 << 20
	comparedTargets = 3_000_000
	abandoned       = 250_000 // targets that count for a comparison that ends with ErrTooMany
)

// identities of a report are digests of everything except the two commits that determines its page. bare leaves out the
// trunk, of which a report of too many changes shows nothing.
type identities struct{ full, bare string }

// identity returns the identities of the report of a change. They are as short as the fingerprints in reports, because
// they are published and must help no more than these to guess the key.
func (w *changeWriter) identity(c Change) (identities, error) {
	reads, err := w.reports.Reads(c)
	if err != nil {
		return identities{}, fmt.Errorf("%s: %w", c.Path(), err)
	}
	const published = 4 // bytes
	sum := func(reads []byte) string {
		h := hmac.New(sha256.New, w.reports.Key)
		fmt.Fprintf(h, "%q %q %q %x", w.reports.Fleet, w.reports.Version, w.policy, reads)
		return hex.EncodeToString(h.Sum(nil)[:published])
	}
	return identities{full: sum(reads), bare: sum(nil)}, nil
}

// madeWith is the last line of a report, with its identity.
func madeWith(identity string) string { return "\n<!-- made with " + identity + " -->\n" }

// WriteChanges writes the reports of the changes that the pages link to, and removes others. The report of two commits
// that an earlier run wrote stays if its identity is the same. Call it before Write: it decides which states the pages
// compare.
func WriteChanges(dir string, p *Pages, r Reports) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a web server reads the pages as another user
		return fmt.Errorf("pages: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only used to open files
	policy, err := page.Policy()        // it names the style and the scripts of the pages
	if err != nil {
		return err
	}
	files, err := page.Files()
	if err != nil {
		return err
	}
	w := &changeWriter{
		root: root, reports: r, policy: policy, keep: map[string]bool{},
		left: cmp.Or(r.MaxTargets, comparedTargets),
	}
	for name, data := range files {
		if err := w.file(changesFolder+"/"+name, data); err != nil {
			return err
		}
	}
	for _, c := range p.written {
		if _, _, err := w.change(c); err != nil {
			return err
		}
	}
	for _, e := range p.fleet.Environments {
		states, err := w.compare(e, p.compare)
		if err != nil {
			return err
		}
		p.compared[e.Name] = len(states)
		for i := range states {
			if c, ok := e.changeOf(&states[i]); ok && w.keep[c.Path()] {
				p.reported[c.Path()] = true
			}
		}
	}
	return pruneChanges(root, w.keep)
}

// changeWriter writes the reports of changes.
type changeWriter struct {
	root    *os.Root
	reports Reports
	policy  string          // of the content of reports
	keep    map[string]bool // files that stay
	left    int             // targets that may be compared for comparisons
}

func (w *changeWriter) file(name string, data []byte) error {
	w.keep[name] = true
	return replace(w.root, name, data)
}

// change writes the report of a change, unless it is there already. It returns the size of the file and the number of
// compared targets, which is 0 for a file that was there.
func (w *changeWriter) change(c Change) (size int64, targets int, err error) {
	w.keep[c.Path()] = true
	var id identities
	if c.After != "" { // the report of the next promotion is always made
		if id, err = w.identity(c); err != nil {
			return 0, 0, err
		}
		if size, ok := w.have(c, id); ok {
			return size, 0, nil
		}
	}
	r, err := w.reports.Make(c)
	if err != nil {
		return 0, 0, err
	}
	var out bytes.Buffer
	if err := page.WriteLinked(&out, r, "../"); err != nil {
		return 0, 0, err
	}
	targets, line := abandoned, madeWith(id.bare)
	if r.Changes != nil {
		targets, line = r.Changes.Compared, madeWith(id.full)
	}
	if c.After != "" {
		out.WriteString(line)
	}
	return int64(out.Len()), targets, replace(w.root, c.Path(), out.Bytes())
}

// have reports whether the folder has the report of a change with one of its identities, and its size.
func (w *changeWriter) have(c Change, id identities) (size int64, ok bool) {
	f, err := w.root.Open(filepath.FromSlash(c.Path()))
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return 0, false
	}
	end := make([]byte, len(madeWith(id.full)))
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return 0, false
	}
	line := string(end)
	return info.Size(), line == madeWith(id.full) || line == madeWith(id.bare)
}

// compare writes the reports between any two of the newest states of an environment, each from the older to the newer
// one, and returns the states of which it has all of them. Above a limit these are fewer. The reports of the state at
// which the limit ends them stay in the folder, so that a later run neither makes them again nor counts their targets
// again.
func (w *changeWriter) compare(e *Environment, most int) ([]Event, error) {
	list := statesOf(e)
	list = list[:min(len(list), most)]
	room := cmp.Or(w.reports.MaxBytes, comparedBytes)
	for i := range list {
		for j := range i {
			neighbours := j == i-1 // their report is not limited
			if !neighbours && (room <= 0 || w.left <= 0) {
				return list[:i], nil
			}
			c, ok := e.Between(list[i].Commit, list[j].Commit)
			if !ok {
				return list[:i], nil
			}
			size, targets, err := w.change(c)
			if err != nil {
				return nil, err
			}
			if !neighbours {
				room, w.left = room-size, w.left-targets
			}
		}
	}
	return list, nil
}

// pruneChanges removes the files in the folder of changes that are not to be kept.
func pruneChanges(root *os.Root, keep map[string]bool) error {
	var gone []string
	err := fs.WalkDir(root.FS(), changesFolder, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !keep[name] {
			gone = append(gone, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	for _, name := range gone {
		if err := root.Remove(filepath.FromSlash(name)); err != nil {
			return fmt.Errorf("pages: %w", err)
		}
	}
	return nil
}
