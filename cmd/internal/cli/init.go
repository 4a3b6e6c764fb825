package cli

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/signers"
)

//go:embed all:starter
var starter embed.FS

func newInit(o IO) *cobra.Command {
	var keys []string
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write a small, commented, working fleet",
		Long: `Writes a fleet of two environments, two clusters and one app into a folder, by default the current one. If one of the
files exists, the command writes nothing.

--signers lists in spec.signers who may sign records and rendered commits, which every fleet in production needs: without
it, whoever can push to sluice/state can forge an approval. Each file is an SSH public key, or has lines of Git's
allowed-signers file. Name the key of the service or CI job and those of the people who promote.`,
		Example: `  sluice init
  sluice init --signers ~/.ssh/id_ed25519.pub,service.pub
  sluice init fleet && cd fleet && sluice validate
  git init -b main && git add -A && git commit -m "Start a fleet" && sluice hydrate`,
		Args: maxArgs("FOLDER"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			lines, err := readSigners(keys)
			if err != nil {
				return err
			}
			return runInit(o, dir, lines)
		},
	}
	c.Flags().StringSliceVar(&keys, "signers", nil, "`files` with the SSH public keys that may sign records and rendered commits")
	return c
}

// readSigners returns the lines of spec.signers for files with public keys, or with lines of allowed signers.
func readSigners(files []string) ([]string, error) {
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // the person names it
		if err != nil {
			return nil, err
		}
		if bytes.Contains(data, []byte("PRIVATE KEY")) {
			return nil, fmt.Errorf("%s is a private key: name its public key, %s.pub", file, file)
		}
		before := len(out)
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			key, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
			if err == nil && !strings.Contains(line, "namespaces=") &&
				strings.HasPrefix(line, key.Type()+" ") { // a public key, not a line of allowed signers
				name := strings.TrimSuffix(filepath.Base(file), ".pub")
				if words := strings.Fields(comment); len(words) > 0 {
					name = words[0]
				}
				line = name + ` namespaces="git" ` + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
			}
			if _, err := signers.Parse([]string{line}); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			out = append(out, line)
		}
		if len(out) == before {
			return nil, fmt.Errorf("%s has no key (name an SSH public key, such as ~/.ssh/id_ed25519.pub)", file)
		}
	}
	return out, nil
}

// withSigners adds spec.signers to the fleet's file.
func withSigners(data []byte, lines []string) []byte {
	if len(lines) == 0 {
		return data
	}
	out := bytes.NewBuffer(bytes.TrimRight(data, "\n"))
	out.WriteString("\n  # Who may sign records and rendered commits: lines of Git's allowed-signers file.\n  signers:\n")
	for _, line := range lines {
		fmt.Fprintf(out, "    - '%s'\n", strings.ReplaceAll(line, "'", "''"))
	}
	return out.Bytes()
}

func runInit(o IO, dir string, signers []string) error {
	files := map[string][]byte{}
	var existing []string
	err := fs.WalkDir(starter, "starter", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(p, "starter/")))
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			existing = append(existing, name)
		}
		data, err := starter.ReadFile(p)
		if p == "starter/"+fleet.File {
			data = withSigners(data, signers)
		}
		files[name] = data
		return err
	})
	if err != nil {
		return err
	}
	if len(existing) > 0 {
		return fmt.Errorf("%s already in %s: nothing was written; name an empty folder", some(existing), dir)
	}
	for name, data := range files {
		if err := writeFile(name, data); err != nil {
			return err
		}
	}
	in := ""
	if dir != "." {
		in = "cd " + dir + ", "
	}
	fmt.Fprintf(o.Out, "wrote %s; next: %sread sluice.yaml, run `sluice validate` and `sluice render --cluster dev-1`\n", count(len(files), "file"), in)
	return nil
}
