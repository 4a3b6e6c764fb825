package site

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/bot/report/page"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// Reports makes the reports of changes.
type Reports struct {
	// Make makes one of them.
	Make func(Change) (*report.Review, error)
	// Fleet is that of the trunk, which the reports name. Reports of another registry are made again.
	Fleet *fleet.Fleet
	// Version and Key are what Make works with; Key is nil if it is a random one. Reports of others are made again.
	Version string
	Key     []byte
	// MaxBytes limits the total size of an environment's comparisons of states that are not adjacent; 0 is 16 MiB.
	MaxBytes int64
	// MaxTargets limits the targets that one run compares for them, of all environments together; 0 is 3,000,000. A later run continues.
	MaxTargets int
}

const (
	comparedBytes   = 16 << 20
	comparedTargets = 3_000_000
	abandoned       = 250_000 // targets that count for a comparison that ends with ErrTooMany
)

// identity returns a digest of everything except the two commits that determines the page of a change. It is short, because the file is
// published and must not help to guess the key.
func (r Reports) identity() (string, error) {
	policy, err := page.Policy() // it names the style and the scripts of the pages
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, r.Key)
	fmt.Fprintf(sum, "%q %q %q ", r.Fleet.Name, r.Version, policy)
	if err := json.NewEncoder(sum).Encode([]any{r.Fleet.Spec, r.Fleet.Clusters, r.Fleet.Apps}); err != nil {
		return "", fmt.Errorf("digest of the registry: %w", err)
	}
	const published = 4 // bytes
	return hex.EncodeToString(sum.Sum(nil)[:published]), nil
}

// identityFile of the folder of changes has the identity of its reports.
const identityFile = changesFolder + "/made-with.txt"

// WriteChanges writes the reports of the changes that the pages link to, and removes others. The report of two commits that an earlier run
// wrote stays if its identity is the same. Call it before Write: it decides which states the pages compare.
func WriteChanges(dir string, p *Pages, r Reports) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a web server reads the pages as another user
		return fmt.Errorf("pages: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only used to open files
	identity, err := r.identity()
	if err != nil {
		return err
	}
	if have, err := root.ReadFile(filepath.FromSlash(identityFile)); err != nil || string(have) != identity {
		if err := root.RemoveAll(changesFolder); err != nil {
			return fmt.Errorf("pages: %w", err)
		}
	}
	files, err := page.Files()
	if err != nil {
		return err
	}
	w := &changeWriter{root: root, reports: r, keep: map[string]bool{}, left: cmp.Or(r.MaxTargets, comparedTargets)}
	for name, data := range files {
		if err := w.file(changesFolder+"/"+name, data); err != nil {
			return err
		}
	}
	if err := w.file(identityFile, []byte(identity)); err != nil {
		return err
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
	keep    map[string]bool // files that stay
	left    int             // targets that may be compared for comparisons
}

func (w *changeWriter) file(name string, data []byte) error {
	w.keep[name] = true
	return replace(w.root, name, data)
}

// change writes the report of a change, unless it is there already. It returns the size of the file and the number of compared targets,
// which is 0 for a file that was there.
func (w *changeWriter) change(c Change) (size int64, targets int, err error) {
	w.keep[c.Path()] = true
	if info, err := w.root.Stat(filepath.FromSlash(c.Path())); err == nil && c.After != "" {
		return info.Size(), 0, nil
	}
	r, err := w.reports.Make(c)
	if err != nil {
		return 0, 0, err
	}
	var out bytes.Buffer
	if err := page.WriteLinked(&out, r, "../"); err != nil {
		return 0, 0, err
	}
	targets = abandoned
	if r.Changes != nil {
		targets = r.Changes.Compared
	}
	return int64(out.Len()), targets, replace(w.root, c.Path(), out.Bytes())
}

// compare writes the reports between any two of the newest states of an environment, each from the older to the newer one, and returns the
// states of which it has all of them. Above a limit these are fewer. The reports of the state at which the limit ends them stay in the folder,
// so that a later run neither makes them again nor counts their targets again.
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
