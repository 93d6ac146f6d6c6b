"""Export the map of a fitted model as modules of sentence-transformers.

A sentence encoder is a chain of modules. The map is two more: ``Dense`` computes A x + b in single
precision, and ``Normalize`` scales the result to length 1 if the model does. Only the package
``safetensors`` is needed to write them, and files have the class names that all versions of
sentence-transformers read.
"""

import json
import os
from pathlib import Path
from typing import Any

from mpda._lib.atomic_write import atomic_folder
from mpda.io.single_precision import round_to_single


def export_sentence_transformers(model: Any, folder: str | os.PathLike[str]) -> Path:
    """Write the map of a fitted model as a folder of sentence-transformers.

    Parameters
    ----------
    model : estimator
        Fitted model, as in :func:`affine_map`. Fit it to what ``encode`` of the encoder returns.
    folder : str or path
        Folder to create. It may exist if it is empty.

    Returns
    -------
    Path
        The folder. ``SentenceTransformer(folder)`` reads it as a chain of one or two modules, which
        ``encoder.extend`` adds to an encoder.

    Raises
    ------
    FileExistsError
        If the folder has files, which may be those of an encoder.
    TypeError
        If the model replaces missing values, which these modules do not.
    ValueError
        If the model keeps training samples, and float32 changes their labels.

    Notes
    -----
    Each result is rounded by about 1e-7 of the sum of |A| |x|.
    """
    linear = round_to_single(model, "sentence-transformers")
    try:
        from safetensors.numpy import save
    except ImportError as error:
        reason = "export to sentence-transformers needs safetensors: pip install safetensors"
        raise ImportError(reason) from error
    n_components, n_features = linear.matrix.shape
    names = ["Dense", "Normalize"] if linear.unit_length else ["Dense"]
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": f"{i}_{name}",
            "type": f"sentence_transformers.models.{name}",
        }
        for i, name in enumerate(names)
    ]
    dense = {
        "in_features": n_features,
        "out_features": n_components,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    measure = {"similarity_fn_name": "cosine" if linear.unit_length else "euclidean"}
    contents = {
        "modules.json": modules,
        "config_sentence_transformers.json": measure,
        "0_Dense/config.json": dense,
        **({"1_Normalize/config.json": {}} if linear.unit_length else {}),
    }
    weights = {"linear.weight": linear.matrix, "linear.bias": linear.bias}
    with atomic_folder(Path(folder)) as temporary:
        for name, content in contents.items():
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).write_text(json.dumps(content, indent=2) + "\n")
        (temporary / "0_Dense" / "model.safetensors").write_bytes(save(weights))
    return Path(folder)
