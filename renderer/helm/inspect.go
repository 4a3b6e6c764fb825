package helm

import "text/template/parse"

// inspect calls visit for a node of a template, then for all nodes below it.
func inspect(n parse.Node, visit func(parse.Node)) {
	visit(n)
	switch x := n.(type) {
	case *parse.ListNode:
		if x == nil {
			return
		}
		for _, child := range x.Nodes {
			inspect(child, visit)
		}
	case *parse.PipeNode:
		if x == nil {
			return
		}
		for _, child := range x.Cmds {
			inspect(child, visit)
		}
	case *parse.CommandNode:
		for _, child := range x.Args {
			inspect(child, visit)
		}
	case *parse.ActionNode:
		inspect(x.Pipe, visit)
	case *parse.IfNode:
		inspectBranch(&x.BranchNode, visit)
	case *parse.RangeNode:
		inspectBranch(&x.BranchNode, visit)
	case *parse.WithNode:
		inspectBranch(&x.BranchNode, visit)
	case *parse.TemplateNode:
		inspect(x.Pipe, visit)
	case *parse.ChainNode:
		inspect(x.Node, visit)
	}
}

func inspectBranch(b *parse.BranchNode, visit func(parse.Node)) {
	inspect(b.Pipe, visit)
	inspect(b.List, visit)
	inspect(b.ElseList, visit)
}
