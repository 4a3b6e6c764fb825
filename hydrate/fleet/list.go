package fleet

import (
	"context"
	"reflect"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// manyFiles is the number of files of some patterns from which on their list is kept as a whole.
const manyFiles = 64

// fileList are the decoded files of some patterns in one commit, in the order of their names.
type fileList struct {
	names   []string
	ids     []string // of their content; "" for a link, and if the tree does not tell
	decoded []decodedFile
}

// listReader finds files in a list in the order of their names.
type listReader struct {
	fileList
	at int
}

func (r *listReader) find(name, id string) (decodedFile, bool) {
	for r.at < len(r.names) && r.names[r.at] < name {
		r.at++
	}
	if r.at == len(r.names) || r.names[r.at] != name || r.ids[r.at] != id {
		return decodedFile{}, false
	}
	return r.decoded[r.at], true
}

// decodeAll decodes the files that some patterns find. A registry has thousands of files of which a commit changes a few: their list is kept,
// in this run and between runs, and each file in it whose content is the same is taken from there without a look-up of its own.
func (c *Cache) decodeAll(ctx context.Context, tree *linkTree, patterns string, files []foundFile) []decodedFile {
	list := fileList{names: make([]string, len(files)), ids: make([]string, len(files)), decoded: make([]decodedFile, len(files))}
	for i, f := range files {
		list.names[i] = f.name
	}
	if len(files) < manyFiles {
		_ = inParallel(ctx, len(files), func(i int) { list.decoded[i], _ = c.decode(tree, list.names[i]) }) // Load looks at the context
		return list.decoded
	}
	rows, missing := c.fromLists(ctx, patterns, files, &list)
	ids, read := make([]string, len(missing)), make([]bool, len(missing))
	err := inParallel(ctx, len(missing), func(n int) {
		i := missing[n]
		list.decoded[i], ids[n], read[n] = c.decodeOnce(tree, list.names[i])
	})
	if err != nil {
		return list.decoded // Load looks at the context
	}
	for n, i := range missing {
		if ids[n] == "" { // it could not be read, and the next commit or attempt may have it
			list.ids[i] = ""
		}
	}
	tree.reads.add(list.names...) // what is behind a link is added when it is decoded
	c.lists.Store(patterns, list)
	if !c.kept.keepList(patterns, list, rows, missing) {
		for n, i := range missing {
			if read[n] {
				c.kept.keepFile(ids[n], list.names[i], list.decoded[i])
			}
		}
	}
	return list.decoded
}

// fromLists fills a list with what the last list of the same patterns has, in this run or an earlier one. It returns the encoded files of the
// earlier run, and the files that neither has.
func (c *Cache) fromLists(ctx context.Context, patterns string, files []foundFile, list *fileList) (rows [][]byte, missing []int) {
	var last listReader
	if known, ok := c.lists.Load(patterns); ok {
		last.fileList = known.(fileList) //nolint:forcetypeassert // only lists are stored here
	}
	kept := c.kept.list(patterns)
	rows = make([][]byte, len(files))
	found := make([]bool, len(files))
	for i, f := range files {
		if list.ids[i] = f.id(); list.ids[i] == "" {
			continue
		}
		rows[i], _ = kept.Find(f.name, list.ids[i])
		list.decoded[i], found[i] = last.find(f.name, list.ids[i])
	}
	_ = inParallel(ctx, len(files), func(i int) {
		if !found[i] && rows[i] != nil {
			var err error
			list.decoded[i], err = decodeKept(list.names[i], rows[i])
			found[i] = err == nil
		}
	})
	for i := range files {
		if !found[i] {
			rows[i] = nil
			missing = append(missing, i)
		}
	}
	return rows, missing
}

// inParallel calls do for each number below n, until ctx ends.
func inParallel(ctx context.Context, n int, do func(i int)) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() error {
			for i := w; i < n && ctx.Err() == nil; i += workers {
				do(i)
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// staleList is the share of a list's files that may have changed since it was kept: they are kept one by one until then.
const staleList = 16

// list returns the files that keepList kept for some patterns, by their names and the ids of their content.
func (k kept) list(patterns string) memo.Rows {
	data, _ := k.memory.Get(listKey(patterns))
	return memo.RowsOf(data)
}

// keepList keeps a list, if enough of its files are missing in the list of an earlier run, of which rows are those that still count. Files that
// are not kept by keepFile are not in it.
func (k kept) keepList(patterns string, list fileList, rows [][]byte, missing []int) bool {
	enough := max(manyFiles, len(list.names)) / staleList
	if !k.memory.Puts() || len(missing) <= enough {
		return false
	}
	for _, i := range missing {
		if list.ids[i] != "" {
			if row, ok := comesBack(list.names[i], list.decoded[i]); ok {
				rows[i] = row
			}
		}
		if rows[i] != nil {
			enough--
		}
	}
	if enough >= 0 {
		return false
	}
	var data []byte
	for i, row := range rows {
		if row != nil {
			data = memo.AppendRow(data, list.names[i], list.ids[i], row)
		}
	}
	k.memory.Put(listKey(patterns), data)
	return true
}

func listKey(patterns string) memo.Key { return memo.KeyOf("list of declarations", patterns) }

// comesBack encodes a file, and reports whether decoding gives the same documents.
func comesBack(name string, f decodedFile) ([]byte, bool) {
	data, ok := encodeKept(f)
	if !ok {
		return nil, false
	}
	again, err := decodeKept(name, data)
	return data, err == nil && sameDocuments(again.documents, f.documents)
}

func sameDocuments(a, b []document) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].line != b[i].line || a[i].nodes.line != b[i].nodes.line || string(a[i].nodes.text) != string(b[i].nodes.text) || !reflect.DeepEqual(a[i].value, b[i].value) {
			return false
		}
	}
	return true
}
