package artifacts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/giturl"
)

// Media types of what `flux push artifact` writes, which source-controller reads:
// https://github.com/fluxcd/flux2/blob/main/rfcs/0003-kubernetes-oci
const (
	configType = "application/vnd.cncf.flux.config.v1+json"
	layerType  = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

// annotationSource names the source commit that the artifact was rendered from. org.opencontainers.image.revision names
// the rendered commit, for which Flux writes commit statuses.
const annotationSource = "sluice.dev/source"

// blob is bytes of an artifact with their description.
type blob struct {
	ocispec.Descriptor
	data []byte
}

func newBlob(mediaType string, data []byte) blob {
	return blob{content.NewDescriptorFromBytes(mediaType, data), data}
}

// artifact is what a registry has of a commit of a cluster branch.
type artifact struct{ config, layer, manifest blob }

// subject is the commit of a cluster branch.
type subject struct {
	cluster, branch, repository string // repository is the address of the branches
	commit                      gitstore.Commit
}

// build makes the artifact of a commit.
func build(ctx context.Context, store *gitstore.Store, s subject) (*artifact, error) {
	data, diff, err := pack(ctx, store, s.commit.Tree)
	if err != nil {
		return nil, err
	}
	created := s.commit.Committer.When.UTC().Truncate(time.Second)
	config, err := json.Marshal(ocispec.Image{
		Created: &created, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{diff}},
	})
	if err != nil {
		return nil, err
	}
	out := &artifact{config: newBlob(configType, config), layer: newBlob(layerType, data)}
	annotations := map[string]string{
		ocispec.AnnotationCreated:  created.Format(time.RFC3339),
		ocispec.AnnotationSource:   sourceOf(s.repository),
		ocispec.AnnotationRevision: revisionOf(s.branch, s.commit.Hash),
	}
	if source := branch.Trailer(s.commit.Message, branch.TrailerSource); source != "" {
		annotations[annotationSource] = source
	}
	out.manifest, err = manifestOf(out.config, annotations, out.layer)
	return out, err
}

func manifestOf(config blob, annotations map[string]string, layers ...blob) (blob, error) {
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config.Descriptor, Annotations: annotations,
	}
	for _, l := range layers {
		m.Layers = append(m.Layers, l.Descriptor)
	}
	data, err := json.Marshal(m)
	return newBlob(ocispec.MediaTypeImageManifest, data), err
}

// revisionOf is a revision in Flux's form, such as cluster/eu-1@sha1:603b3b7c….
func revisionOf(branch string, commit gitstore.Hash) string {
	return fmt.Sprintf("%s@sha1:%s", branch, commit)
}

// sourceOf returns the address of a repository in one form, whether it is read by HTTPS or SSH, so that two machines
// write the same artifact.
func sourceOf(repository string) string {
	scheme, _, found := strings.Cut(repository, "://")
	switch {
	case scheme == "http" && found:
		return "http://" + giturl.Plain(repository)
	case found && scheme != "https" && scheme != "ssh", !found && !strings.Contains(repository, "@"):
		return repository // such as a folder
	case scheme == "ssh" && found: // its port is not that of HTTPS
		host, path, _ := strings.Cut(giturl.Plain(repository), "/")
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			host = host[:i]
		}
		return "https://" + host + "/" + path
	}
	return "https://" + giturl.Plain(repository)
}
