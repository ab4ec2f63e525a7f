"""A run's metrics in other tools: TensorBoard, MLflow, Weights & Biases, each an optional package.

Nothing here is in a worker.

`following` hands over the steps that a target has not got yet; a target is a module with a class of
`contract.Target`'s shape.
"""
