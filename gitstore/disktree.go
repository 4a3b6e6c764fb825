package gitstore

import (
	"io/fs"
	"time"
)

// dirItem is a name in a folder on disk.
type dirItem struct {
	name  string
	isDir bool
}

// fileStat is what a comparison with the index needs of a file on disk. It is that of a symbolic link, not of what the link names.
type fileStat struct {
	mode     fs.FileMode // of links and regular files; other files are fs.ModeIrregular
	size     int64       // bytes
	modified time.Time
}
