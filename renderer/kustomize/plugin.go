package kustomize

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	"sigs.k8s.io/kustomize/api/builtins" //nolint:staticcheck // the library decodes into just these types
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// plugin checks an entry of generators, transformers or validators: an inline configuration, a file, or a directory
// that lists such files. Only plugins that are built into the library are allowed. Paths in a configuration are
// relative to the kustomization that lists it.
func (s *scan) plugin(ref string, at place) error {
	objects, inline, err := s.inline(ref, at)
	if err != nil {
		return err
	}
	if inline {
		return s.configurations(objects, at)
	}
	full, found, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return err
	}
	if found.IsDir() {
		if err := s.addChild(full, ref, at, false); err != nil {
			return err
		}
		return s.pluginDir(full, 0)
	}
	return s.pluginFile(s, ref, at)
}

// pluginDir checks a directory of configurations. Its kustomization may only list files and other such directories:
// patches or replacements could change paths in a configuration during the build.
func (s *scan) pluginDir(dir string, depth int) error {
	name, data, err := s.walker.find(dir)
	if err != nil {
		return err
	}
	at := place{file: s.walker.name(name), data: data, area: s.walker.area, mounts: s.walker.mounts}
	var k types.Kustomization
	if err := k.Unmarshal(data); err != nil {
		return unreadable(at, err)
	}
	k.FixKustomization()
	only := types.Kustomization{TypeMeta: k.TypeMeta, MetaData: k.MetaData, Resources: k.Resources}
	if !reflect.DeepEqual(k, only) {
		return fmt.Errorf("%s: a directory of generators, transformers or validators may only list resources here: write the configurations out", at.file)
	}
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d directories deep: flatten them", at.file, maxDepth)
	}
	inner := scan{walker: s.walker, dir: dir, out: &directory{}, file: at}
	for i, ref := range k.Resources {
		at := at.at("resources[%d]", i)
		full, found, err := locate(s.walker.tree, dir, ref, at)
		switch {
		case err != nil:
			return err
		case found.IsDir() && within(full, dir):
			return at.refuse(ref, "is a parent directory of %s: move it to a sibling directory", dir)
		case found.IsDir():
			err = s.pluginDir(full, depth+1)
		default:
			err = s.pluginFile(&inner, ref, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pluginFile checks a file of configurations that the kustomization of inner lists. Paths in it are relative to the
// kustomization of s.
func (s *scan) pluginFile(inner *scan, ref string, at place) error {
	data, err := inner.readYAML(ref, at)
	if err != nil {
		return err
	}
	objects, err := provider.NewDepProvider().GetResourceFactory().SliceFromBytes(data)
	if err != nil {
		return at.refuse(ref, "does not decode as the configuration of a plugin: %w", err)
	}
	return s.configurations(objects, place{
		file: s.walker.name(path.Join(inner.dir, ref)), data: data, area: s.walker.area, mounts: s.walker.mounts,
	})
}

func (s *scan) configurations(objects []*resource.Resource, at place) error {
	for _, o := range objects {
		if err := s.configuration(o, at); err != nil {
			return err
		}
	}
	return nil
}

// configuration refuses external plugins and follows the files that built-in ones read. It decodes as the library does,
// which ignores the case of keys. It calls nothing of the library that needs guard.go, such as an object's GVK.
func (s *scan) configuration(o *resource.Resource, at place) error {
	kind := o.GetKind()
	for key := range o.GetAnnotations() {
		if strings.HasPrefix(key, "config.kubernetes.io/function") || strings.HasPrefix(key, "config.k8s.io/function") {
			return fmt.Errorf("%s: %s %s is an exec or container function (%s), which is not allowed: commit its output instead", at.file, kind, o.GetName(), key)
		}
	}
	if o.GetApiVersion() != konfig.BuiltinPluginApiVersion {
		return fmt.Errorf("%s: %s %s is an external plugin, which is not allowed: use `apiVersion: builtin`, or commit its output instead", at.file, kind, o.GetName())
	}
	text, err := o.AsYAML()
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", at.file, kind, o.GetName(), err)
	}
	at.field = kind + " " + o.GetName()
	if err := s.builtin(kind, text, at); err != nil {
		return fmt.Errorf("%s: %s: %w", at.file, at.field, err)
	}
	return nil
}

// builtin follows the files that a plugin reads which is built into the library.
func (s *scan) builtin(kind string, text []byte, at place) error {
	field := at.field + ": "
	switch kind {
	case "AnnotationsTransformer", "HashTransformer", "IAMPolicyGenerator", "ImageTagTransformer", "LabelTransformer",
		"NamespaceTransformer", "PrefixSuffixTransformer", "PrefixTransformer", "SuffixTransformer",
		"ReplicaCountTransformer":
		return nil // they read no file
	case "ConfigMapGenerator":
		return decoded(text, func(p *builtins.ConfigMapGeneratorPlugin) { s.sources(&p.KvPairSources, at, field) })
	case "SecretGenerator":
		return decoded(text, func(p *builtins.SecretGeneratorPlugin) { s.sources(&p.KvPairSources, at, field) })
	case "PatchTransformer":
		return decoded(text, func(p *builtins.PatchTransformerPlugin) { s.patch(p.Path, p.Patch, at) })
	case "PatchJson6902Transformer":
		return decoded(text, func(p *builtins.PatchJson6902TransformerPlugin) { s.patch(p.Path, p.JsonOp, at) })
	case "PatchStrategicMergeTransformer":
		return decoded(text, func(p *builtins.PatchStrategicMergeTransformerPlugin) {
			for i, ref := range strategicTexts(p.Paths) {
				if !s.full() {
					s.fail(s.strategicPatch(ref, at.at("%spaths[%d]", field, i)))
				}
			}
			s.patch("", p.Patches, at)
		})
	case "ReplacementTransformer":
		return decoded(text, func(p *builtins.ReplacementTransformerPlugin) {
			for i := range p.ReplacementList {
				s.patch(p.ReplacementList[i].Path, "", at.at("%sreplacements[%d]", field, i))
			}
		})
	case "ValueAddTransformer":
		return decoded(text, func(p *builtins.ValueAddTransformerPlugin) { s.patch(p.TargetFilePath, "", at) })
	case "HelmChartInflationGenerator":
		return fmt.Errorf("starts Helm and is not allowed: list the chart under helmCharts of the kustomization, or make it a source of the app")
	default:
		return fmt.Errorf("no such plugin is built into Kustomize: correct the kind")
	}
}

// patch follows a patch that is given as a file, as text, or both.
func (s *scan) patch(ref, text string, at place) {
	if s.full() {
		return
	}
	if ref != "" {
		s.fail(s.addYAML(ref, at))
	}
	s.fail(s.checkText([]byte(text), at))
}

// decoded calls follow with the configuration of a plugin.
func decoded[P any](text []byte, follow func(*P)) error {
	var p P
	if err := yaml.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("the configuration does not decode: %w", err)
	}
	follow(&p)
	return nil
}
