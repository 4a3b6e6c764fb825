package gitstore

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// WorkingTree reads the files of a folder as Git would commit them, ignored ones left out, and gives the tree's hash. The
// objects stay in memory; the repository does not change.
func (s *Store) WorkingTree(ctx context.Context, dir string) (Hash, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return Hash{}, err
	}
	patterns, err := gitignore.ReadPatterns(osfs.New(root), nil)
	if err != nil {
		return Hash{}, fmt.Errorf("read .gitignore files: %w", err)
	}
	if s.dir != "" {
		if data, err := os.ReadFile(filepath.Join(s.dir, "info", "exclude")); err == nil {
			for line := range strings.Lines(string(data)) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
					patterns = append(patterns, gitignore.ParsePattern(line, nil))
				}
			}
		}
	}
	w := walker{store: s, ctx: ctx, ignored: gitignore.NewMatcher(patterns)}
	h, _, err := w.dir(root, nil)
	return h, err
}

type walker struct {
	store   *Store
	ctx     context.Context //nolint:containedctx // one walk
	ignored gitignore.Matcher
}

// dir also says whether there was anything in it: Git has no empty directories.
func (w walker) dir(dir string, at []string) (Hash, bool, error) {
	if err := w.ctx.Err(); err != nil {
		return Hash{}, false, err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return Hash{}, false, err
	}
	var entries []Entry
	for _, item := range list {
		where := append(at[:len(at):len(at)], item.Name())
		if strings.EqualFold(item.Name(), ".git") || w.ignored.Match(where, item.IsDir()) {
			continue
		}
		e, ok, err := w.entry(filepath.Join(dir, item.Name()), item, where)
		if err != nil {
			return Hash{}, false, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	data, err := encodeTree(entries)
	if err != nil {
		return Hash{}, false, err
	}
	return w.store.keep("tree", data), len(entries) > 0, nil
}

func (w walker) entry(name string, item fs.DirEntry, where []string) (Entry, bool, error) {
	e := Entry{Name: item.Name()}
	switch mode := item.Type(); {
	case mode.IsDir():
		h, any, err := w.dir(name, where) //nolint:predeclared // whether there is any file
		e.Mode, e.Hash = ModeTree, h
		return e, any, err
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(name)
		if err != nil {
			return e, false, err
		}
		e.Mode, e.Hash = ModeSymlink, w.store.keep("blob", []byte(filepath.ToSlash(target)))
		return e, true, nil
	case mode.IsRegular():
		info, err := item.Info()
		if err != nil {
			return e, false, err
		}
		if info.Size() > maxBlob {
			return e, false, fmt.Errorf("%s is larger than %d MiB", name, maxBlob>>20)
		}
		data, err := os.ReadFile(name) //nolint:gosec // the user's own files
		if err != nil {
			return e, false, err
		}
		e.Mode, e.Hash = ModeFile, w.store.keep("blob", data)
		if info.Mode()&0o100 != 0 {
			e.Mode = ModeExecutable
		}
		return e, true, nil
	default:
		return e, false, nil // sockets and devices are not Git's
	}
}
