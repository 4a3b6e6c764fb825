package fleet

import (
	"context"
	"path"
	"reflect"
	"slices"

	"github.com/sluice-gitops/sluice/internal/memo"
	"github.com/sluice-gitops/sluice/internal/parallel"
)

// manyFiles is the number of files of some patterns from which on their list is kept as a whole.
const manyFiles = 64

// fileList are the decoded files of some patterns in one commit, in the order of their names.
type fileList struct {
	folder  string // id of the only folder that the patterns look at, if the list has all of its files that match; otherwise ""
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

// folderOf returns the id of the folder whose entries decide what some patterns find; "" if there is no such folder, or if the tree has no ids.
func folderOf(tree *linkTree, patterns []glob) string {
	if len(patterns) != 1 {
		return ""
	}
	above := patterns[0][:len(patterns[0])-1]
	if len(above) == 0 || slices.ContainsFunc(above, func(segment string) bool { return !isLiteral(segment) }) || patterns[0][len(above)] == "**" {
		return ""
	}
	info, err := tree.Tree.Stat(path.Join(above...)) // which follows no links, as a walk does not
	if err != nil || !info.IsDir() {
		return ""
	}
	id, _ := idOf(info)
	return id
}

// whole returns the list of some patterns that look at one folder only, if this run or an earlier one has the list for the folder as it is. The
// folder is not read then.
func (c *Cache) whole(ctx context.Context, tree *linkTree, patterns, folder string) (fileList, bool) {
	if folder == "" {
		return fileList{}, false
	}
	if known, ok := c.lists.Load(patterns); ok {
		list := known.(fileList) //nolint:forcetypeassert // only lists are stored here
		if list.folder == folder {
			tree.reads.addList(list.names)
			return list, true
		}
	}
	list, ok := c.kept.whole(ctx, patterns, folder)
	if ok {
		tree.reads.addList(list.names)
		c.lists.Store(patterns, list)
	}
	return list, ok
}

// decodeAll decodes the files that some patterns find. A registry has thousands of files of which a commit changes a few: their list is kept,
// in this run and between runs, and each file in it whose content is the same is taken from there without a look-up of its own.
// folder is that of folderOf, or "" if others of its files match.
func (c *Cache) decodeAll(ctx context.Context, tree *linkTree, patterns, folder string, files []*foundFile) []decodedFile {
	list := fileList{folder: folder, names: make([]string, len(files)), ids: make([]string, len(files)), decoded: make([]decodedFile, len(files))}
	for i, f := range files {
		list.names[i] = f.name
	}
	if len(files) < manyFiles {
		_ = inParallel(ctx, len(files), func(i int) { list.decoded[i], _ = c.decode(tree, list.names[i]) }) // Load looks at the context
		return list.decoded
	}
	_, again := c.lists.Load(patterns)
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
	if slices.Contains(list.ids, "") {
		list.folder = "" // what a link leads to, for one, can change without the folder
	}
	tree.reads.addList(list.names) // what is behind a link is added when it is decoded
	c.lists.Store(patterns, list)
	if !c.kept.keepList(patterns, list, rows, missing, !again) {
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
func (c *Cache) fromLists(ctx context.Context, patterns string, files []*foundFile, list *fileList) (rows [][]byte, missing []int) {
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
	return parallel.Each(ctx, n, func(_ context.Context, i int) error {
		do(i)
		return nil
	})
}

// staleList is the share of a list's files that may have changed since it was kept: they are kept one by one until then.
const staleList = 16

// list returns the files that keepList kept for some patterns, by their names and the ids of their content.
func (k kept) list(patterns string) memo.Rows {
	data, _ := k.memory.Get(listKey(patterns))
	return memo.RowsOf(data)
}

// whole returns a list that keepList kept for a folder.
func (k kept) whole(ctx context.Context, patterns, folder string) (fileList, bool) {
	rows := k.list(patterns)
	if _, ok := rows.Find("", folder); !ok {
		return fileList{}, false
	}
	list := fileList{folder: folder}
	var encoded [][]byte
	for rows.Next() {
		name, id, row := rows.Row()
		list.names, list.ids, encoded = append(list.names, name), append(list.ids, id), append(encoded, row)
	}
	list.decoded = make([]decodedFile, len(list.names))
	errs := make([]error, len(list.names))
	err := inParallel(ctx, len(encoded), func(i int) { list.decoded[i], errs[i] = decodeKept(list.names[i], encoded[i]) })
	return list, err == nil && !slices.ContainsFunc(errs, func(err error) bool { return err != nil })
}

// keepList keeps a list, if enough of its files are missing in the list of an earlier run, of which rows are those that still count, or, with
// moved, if the earlier list is that of another folder. Files that are not kept by keepFile are not in it. It returns false if the caller has
// to keep the files one by one.
func (k kept) keepList(patterns string, list fileList, rows [][]byte, missing []int, moved bool) bool {
	if !k.memory.Puts() {
		return false
	}
	before := k.list(patterns)
	_, same := before.Find("", list.folder)
	moved = moved && list.folder != "" && !same
	enough := max(manyFiles, len(list.names)) / staleList
	if !moved && len(missing) <= enough {
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
	complete := !slices.ContainsFunc(rows, func(row []byte) bool { return row == nil })
	if enough >= 0 && (!moved || !complete) {
		return false
	}
	var data []byte
	if list.folder != "" && complete {
		data = memo.AppendRow(data, "", list.folder, nil)
	}
	for i, row := range rows {
		if row != nil {
			data = memo.AppendRow(data, list.names[i], list.ids[i], row)
		}
	}
	return k.memory.Put(listKey(patterns), data)
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
